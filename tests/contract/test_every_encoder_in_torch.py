"""The contract of all encoders with torch: other dtypes, other devices, compiling and exporting."""

import copy

import pytest
import torch

import loope
from loope.core.grid import Grid, as_grid
from tests.contract.calls import (
    DEPTH,
    DIM,
    HEADS,
    PATCH,
    Called,
    Inputs,
    assert_same,
    every_encoder,
    hook_outputs,
    inputs,
    make,
    reads,
)


@every_encoder
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(name, dtype):
    encoder, reference = make(name, (5, 4)).eval().to(dtype), make(name, (5, 4)).eval()
    out = hook_outputs(encoder, inputs((5, 4), dtype=dtype))
    tolerance = {torch.bfloat16: 0.1, torch.float16: 0.02, torch.float64: 1e-4}[dtype]
    for key, value in hook_outputs(reference, inputs((5, 4))).items():
        assert out[key].dtype == dtype
        torch.testing.assert_close(out[key].float(), value, atol=tolerance, rtol=tolerance)


@every_encoder
def test_autocast(name):
    encoder, given = make(name, (5, 4)).eval(), inputs((5, 4))
    with torch.autocast("cpu", torch.bfloat16):
        first = hook_outputs(encoder, given)  # the cache is filled here, under autocast
    for key, value in hook_outputs(encoder, given).items():
        torch.testing.assert_close(first[key].float(), value, atol=0.1, rtol=0.1)
    assert_same(hook_outputs(encoder, given), hook_outputs(make(name, (5, 4)).eval(), given))


@every_encoder
def test_a_cache_from_inference_mode_can_be_trained_with(name):
    encoder = make(name, (3, 4)).eval()
    with torch.inference_mode():
        hook_outputs(encoder, inputs((3, 4)))
    given = inputs((3, 4))._make(value.requires_grad_() for value in inputs((3, 4)))
    out = hook_outputs(encoder, given)
    trained = [value.square().sum() for value in out.values() if value.requires_grad]
    assert bool(trained) == bool(reads(encoder) or list(encoder.parameters()))
    if trained:
        sum(trained).backward()


@every_encoder
def test_follows_the_device_of_its_inputs(name):
    encoder, given = make(name, (3, 4)).eval(), inputs((3, 4))
    hook_outputs(encoder, given)
    out = hook_outputs(encoder.to("meta"), given._make(value.to("meta") for value in given))
    assert {value.device.type for value in out.values()} == {"meta"}


@every_encoder
def test_compiles_without_graph_breaks(name):
    torch._dynamo.reset()
    encoder, given = make(name, (3, 4)).eval(), inputs((3, 4))
    compiled = torch.compile(Called(encoder), fullgraph=True, backend="aot_eager")
    assert_same(compiled(*given), hook_outputs(encoder, given))
    encoder.resize((4, 3))
    assert_same(compiled(*inputs((4, 3))), hook_outputs(encoder, inputs((4, 3))))


@every_encoder
def test_compiled_code_follows_the_grid_of_the_image(name):
    """When sizes change between calls, the compiler uses symbolic sizes."""
    torch._dynamo.reset()
    encoder = make(name, (3, 4)).eval()

    def run(images, tokens, q, k):
        grid = Grid(images.shape[2] // PATCH, images.shape[3] // PATCH)
        return hook_outputs(encoder, Inputs(images, tokens, q, k), grid)

    compiled = torch.compile(run, fullgraph=True, backend="eager")
    for grid in ((3, 4), (4, 3), (5, 6), (2, 6)):
        assert_same(compiled(*inputs(grid)), hook_outputs(encoder, inputs(grid), as_grid(grid)))


@every_encoder
def test_compiled_encoders_do_not_share_constants(name):
    """Two encoders of one class go through one compiled function, which has been specialized to the first."""
    torch._dynamo.reset()
    other = {"sinusoid": {"frequencies": "arithmetic"}, "rope_axial": {"temperature": 7.0}, "as2drope": {"base": 7}}
    other |= {name: {"temperature": 7.0} for name in ("rope_dinov3", "rope_golden", "rope_spiral", "rope_simplex")}
    encoders = [make(name, (3, 4)).eval(), make(name, (3, 4), seed=1, **other.get(name, {})).eval()]
    compiled, given = torch.compile(hook_outputs, fullgraph=True, backend="eager"), inputs((3, 4))
    for encoder in encoders:
        assert_same(compiled(encoder, given), hook_outputs(encoder, given))


@every_encoder
def test_angles_are_rounded_once_at_the_end(name):
    """On a grid of 1x600, bfloat16 differs from float64 only by the rounding of the result."""
    exact = make(name, (1, 600)).double().eval()
    if name in {"loope", "pape"} or not {"embed", "rotate"} & set(exact.hooks()):
        pytest.skip("no angles, or, for LOOPE, offsets from a CNN that runs in bfloat16")
    with torch.no_grad():
        for parameter in exact.parameters():  # the same numbers in both dtypes
            parameter.copy_(parameter.bfloat16())
    rough = copy.deepcopy(exact).bfloat16()
    given = inputs((1, 600), batch=1)
    given = given._make(value.bfloat16() for value in given)
    slow = hook_outputs(exact, given._make(value.double() for value in given))
    for key, value in hook_outputs(rough, given).items():
        torch.testing.assert_close(value.double(), slow[key], atol=0.04, rtol=0.02)  # bfloat16 has 8 bits


@every_encoder
def test_can_be_created_on_the_default_device_meta(name):
    given = inputs((3, 4))
    with torch.device("meta"):
        encoder = loope.create_encoder(name, DIM, (3, 4), patch_size=PATCH, heads=HEADS, depth=DEPTH).eval()
        out = hook_outputs(encoder, given._make(value.to("meta") for value in given))
    assert {value.device.type for value in out.values()} == {"meta"}


@every_encoder
def test_the_cache_depends_on_the_dtype(name):
    encoder, given = make(name, (3, 4)).eval(), inputs((3, 4))
    hook_outputs(encoder, given)
    wide = given._make(value.double() for value in given)
    assert_same(hook_outputs(encoder.double(), wide), hook_outputs(make(name, (3, 4)).double().eval(), wide))


@every_encoder
@pytest.mark.parametrize("strict", [False, True])
def test_exports(name, strict):
    encoder, given = make(name, (3, 4)).eval(), inputs((3, 4))
    program = torch.export.export(Called(encoder), tuple(given), strict=strict)
    assert_same(program.module()(*inputs((3, 4), seed=1)), hook_outputs(encoder, inputs((3, 4), seed=1)))
