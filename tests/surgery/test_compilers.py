"""torch.compile, torch.export, tracing and ONNX with attached models: every encoder in every model."""

import logging
from functools import cache

import numpy as np
import onnxruntime
import pytest
import torch

import loope
from loope.encoders import encoder_class
from tests.surgery.matrix import every_encoder, every_model
from tests.surgery.models import images, make, make_attached, predict

# What comes after the graph is captured no longer sees our code, and takes a third of the time: AOTAutograd and ONNX's
# optimizer run for every encoder in a ViT, and for one of each kind in every model.
KINDS = {"loope", "peg", "alibi2d", "rope_mixed"}


def all_the_way(name: str, encoder: str) -> bool:
    return name == "ViT" or encoder in KINDS


@pytest.fixture(autouse=True, scope="module")
def one_table_of_operators():
    """torch reads its table of ONNX operators anew for each export, which takes as long as the export: keep it."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield


@every_model
@every_encoder
def test_compile(name, encoder):
    torch._dynamo.reset()
    model = make_attached(name, encoder)
    backend = "aot_eager" if all_the_way(name, encoder) else "eager"
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    torch.testing.assert_close(predict(compiled, images(model)), predict(model), atol=1e-4, rtol=1e-4)


@every_model
@every_encoder
@pytest.mark.filterwarnings("ignore")  # the exporter's and onnxscript's own
def test_export_and_onnx_with_a_dynamic_batch(name, encoder):
    model = make_attached(name, encoder)
    if encoder_class(encoder).no_onnx:
        loope.bake(model, images(model).shape[-1])
    argument = "pixel_values" if name.startswith("HF") else "x"
    batch = torch.export.Dim("batch", min=1, max=64)
    with torch.no_grad():
        program = torch.export.export(model, (), {argument: images(model)}, dynamic_shapes={argument: {0: batch}})
    exported, session = program.module(), onnx_session(program, optimize=all_the_way(name, encoder))
    for size in (1, 5):
        pixels = images(model, batch=size, seed=1)
        expected = predict(model, pixels)
        with torch.no_grad():
            out = exported(**{argument: pixels})
        out = out if isinstance(out, torch.Tensor) else out[0]
        torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
        (out, *_) = session.run(None, {argument: pixels.numpy()})
        np.testing.assert_allclose(out, expected.numpy(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("encoder", [name for name in loope.list_encoders() if encoder_class(name).no_onnx])
@pytest.mark.filterwarnings("ignore")
def test_onnx_cannot_take_what_the_table_of_encoders_excludes(encoder):
    model = make_attached("ViT", encoder)
    with torch.no_grad():
        program = torch.export.export(model, (images(model),))
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        onnx_session(program, optimize=False)


@pytest.mark.parametrize("basis", ["orthogonal", "svd", "commuting"])
@pytest.mark.filterwarnings("ignore")
def test_baked_bases_go_to_onnx(basis):
    """ONNX cannot solve linear equations, so bases of rotary encoders must be constants."""
    model = loope.attach(make("ViT"), "rope_axial", basis=basis)
    for parameter in model.loope.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    loope.bake(model, 32)
    with torch.no_grad():
        session = onnx_session(torch.export.export(model, (images(model),)), optimize=False)
    (out, *_) = session.run(None, {"x": images(model, seed=1).numpy()})
    np.testing.assert_allclose(out, predict(model, images(model, seed=1)).numpy(), atol=1e-4, rtol=1e-4)


@every_model
@pytest.mark.parametrize("encoder", ["peg", "rope_mixed"])  # between blocks, where tokens are counted, and in attention
@pytest.mark.filterwarnings("ignore")  # the tracer's, and what it asks transformers' models for
def test_trace(name, encoder):
    model = make_attached(name, encoder, prefix="learned").requires_grad_(False)
    traced = torch.jit.trace(model, images(model), strict=False)
    pixels = images(model, batch=5, seed=1)
    out = traced(pixels)
    out = next(iter(out.values())) if isinstance(out, dict) else out
    torch.testing.assert_close(out, predict(model, pixels), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("encoder", sorted(KINDS))
@pytest.mark.filterwarnings("ignore")  # the exporter is deprecated, and says so in several ways
def test_onnx_by_tracing(encoder, tmp_path):
    model = make_attached("ViT", encoder)
    axes = {"x": {0: "batch"}}
    torch.onnx.export(
        model, (images(model),), tmp_path / "m.onnx", input_names=["x"], dynamic_axes=axes, dynamo=False, verbose=False
    )
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    pixels = images(model, batch=5, seed=1)
    (out, *_) = session.run(None, {"x": pixels.numpy()})
    np.testing.assert_allclose(out, predict(model, pixels).numpy(), atol=1e-4, rtol=1e-4)


def onnx_session(program: torch.export.ExportedProgram, optimize: bool) -> onnxruntime.InferenceSession:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    made = torch.onnx.export(program, (), dynamo=True, opset_version=18, optimize=optimize, verbose=False)
    assert made.model_proto.opset_import[0].version == 18
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # the session folds constants that the optimizer has left, and says so
    return onnxruntime.InferenceSession(made.model_proto.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
