"""torch.compile, torch.export and ONNX with attached models."""

import logging

import numpy as np
import onnxruntime
import pytest
import torch

import loope
from tests.attach.models import MODELS, images, make, predict

# Every encoder in a ViT, and one of each kind in every model.
KINDS = ["loope", "peg", "alibi2d", "rope_mixed"]
PAIRS = [("ViT", encoder) for encoder in loope.list_encoders()] + [
    (name, encoder) for name in MODELS if name != "ViT" for encoder in KINDS
]
every_pair = pytest.mark.parametrize(("name", "encoder"), PAIRS)
# ONNX takes seconds a pair: every encoder in a ViT, and every family once.
FAMILIES = [
    "CaiT",
    "CrossViT",
    "EVA",
    "BEiT",
    "DeiT distilled",
    "ViT, registers",
    "HF ViT",
    "HF DeiT",
    "SETR",
    "Segmenter",
]
ONNX_PAIRS = PAIRS[: len(loope.list_encoders())] + [(name, KINDS[n % 4]) for n, name in enumerate(FAMILIES)]


def attached(name, encoder):
    model = make(name)
    loope.attach(model, encoder)
    return model


@every_pair
def test_compile(name, encoder):
    torch._dynamo.reset()
    model = attached(name, encoder)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(predict(compiled, images(model)), predict(model), atol=1e-4, rtol=1e-4)


@every_pair
def test_export_with_a_dynamic_batch(name, encoder):
    model = attached(name, encoder)
    argument = "pixel_values" if name.startswith("HF") else "x"
    with torch.no_grad():
        program = torch.export.export(
            model,
            (),
            {argument: images(model)},
            dynamic_shapes={argument: {0: torch.export.Dim("batch", min=1, max=64)}},
        )
        out = program.module()(**{argument: images(model, batch=5, seed=1)})
    out = out if isinstance(out, torch.Tensor) else out[0]
    torch.testing.assert_close(out, predict(model, images(model, batch=5, seed=1)), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("name", "encoder"), ONNX_PAIRS)
@pytest.mark.filterwarnings("ignore")  # the exporter's and onnxscript's own
def test_onnx_agrees_with_torch(name, encoder, tmp_path):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    model = attached(name, encoder)
    argument = "pixel_values" if name.startswith("HF") else "x"
    with torch.no_grad():
        program = torch.onnx.export(
            model,
            (images(model),),
            dynamo=True,
            opset_version=18,
            dynamic_shapes={argument: {0: "batch"}},
            verbose=False,
        )
    program.save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    pixels = images(model, batch=3, seed=1)
    (out, *_) = session.run(None, {session.get_inputs()[0].name: pixels.numpy()})
    np.testing.assert_allclose(out, predict(model, pixels).numpy(), atol=1e-4, rtol=1e-4)
