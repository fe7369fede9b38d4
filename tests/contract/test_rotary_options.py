"""The contract of rotary encoders with each of their options."""

import inspect

import pytest
import torch
from torch import nn

import loope
from loope import Positions
from loope.core.grid import Grid, as_grid
from loope.encoders import encoder_class
from loope.positions import as_positions
from tests.contract.calls import DIM, HEADS, Called, assert_same, hook_outputs, inputs, make

OPTIONS = [
    {"layout": "half"},
    {"extrapolate": "linear"},
    {"extrapolate": "ntk"},
    {"basis": "orthogonal"},
    {"basis": "svd", "layout": "half"},
    {"basis": "svd", "layout": "interleaved"},
    {"basis": "commuting", "layout": "half"},
    {"basis": "commuting", "layout": "interleaved"},
]
PAIRS = [
    pytest.param(name, options, id=f"{name}-{'-'.join(map(str, options.values()))}")
    for name in ("rope_axial", "rope_mixed", "rope_golden", "rope_dinov3")  # the others share their code
    for options in OPTIONS
    if options.keys() <= inspect.signature(encoder_class(name)).parameters.keys()
]
every_pair = pytest.mark.parametrize(("name", "options"), PAIRS)


def moved(name, options, grid=(3, 4)):
    """One whose parameters have left their start."""
    encoder = make(name, grid, **options).eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    return encoder


@every_pair
def test_resize_equals_one_call_at_the_other_grid(name, options):
    encoder, given = moved(name, options), inputs((5, 6))
    one_call = hook_outputs(encoder, given, Grid(5, 6))
    assert_same(hook_outputs(encoder.resize((5, 6)), given), one_call)


@every_pair
def test_state_dict_round_trip(name, options):
    source, target = moved(name, options), make(name, (3, 4), seed=2, **options).eval()
    target.load_state_dict(source.state_dict())
    assert_same(hook_outputs(target, inputs((3, 4))), hook_outputs(source, inputs((3, 4))))


@every_pair
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes(name, options, dtype):
    reference = moved(name, options)
    out = hook_outputs(moved(name, options).to(dtype), inputs((3, 4), dtype=dtype))
    tolerance = {torch.bfloat16: 0.15, torch.float64: 1e-4}[dtype]
    for key, value in hook_outputs(reference, inputs((3, 4))).items():
        assert out[key].dtype == dtype
        torch.testing.assert_close(out[key].float(), value, atol=tolerance, rtol=tolerance)


@every_pair
def test_taking_patches_is_gathering_from_the_whole(name, options):
    encoder, given = moved(name, options).double(), inputs((3, 4), dtype=torch.float64)
    index = torch.stack([torch.randperm(12)[:7] for _ in range(len(given.q))])
    rows = torch.arange(len(given.q))[:, None]

    def taken(values):
        return values.transpose(1, 2)[rows, index].transpose(1, 2)

    whole = encoder.rotate(given.q, given.k, Positions.grid(3, 4), 1)
    some = encoder.rotate(taken(given.q), taken(given.k), Positions.grid(3, 4).take(index), 1)
    for all_of_them, ours in zip(whole, some, strict=True):
        torch.testing.assert_close(ours, taken(all_of_them), rtol=1e-12, atol=1e-12)


@every_pair
def test_strength_goes_from_nothing_to_everything(name, options):
    encoder, given = moved(name, options), inputs((3, 4))
    place = as_positions((3, 4))
    for strength, expected in ((0.0, (given.q, given.k)), (1.0, encoder.rotate(given.q, given.k, place, 1))):
        ours = encoder.rotate_partly(given.q, given.k, place, 1, torch.tensor(strength))
        for one, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0 if strength == 0 else 1e-5)


@every_pair
def test_similarity_is_what_equal_vectors_score_on_average(name, options):
    """The mean over random vectors x of (R_i x)(R_j x), over that of x x after the encoder's transform."""
    encoder = moved(name, options).double()
    width = DIM // HEADS
    unit = torch.eye(width, dtype=torch.float64)[:, None, None].expand(-1, HEADS, 12, -1)
    total = torch.zeros(12, 12, dtype=torch.float64)
    with torch.no_grad():
        for layer in range(encoder._layers()):
            q, k = encoder.rotate(unit, unit, encoder.grid, layer)
            total += (q @ k.mT).sum((0, 1)) / (HEADS * width * encoder._layers())
    expected = total / total.diagonal().mean()
    torch.testing.assert_close(loope.encoder_similarity(encoder), expected, rtol=0, atol=1e-9)


@every_pair
def test_compiles_without_graph_breaks(name, options):
    torch._dynamo.reset()
    encoder, given = moved(name, options), inputs((3, 4))
    compiled = torch.compile(Called(encoder), fullgraph=True, backend="aot_eager")
    assert_same(compiled(*given), hook_outputs(encoder, given))


@every_pair
def test_exports(name, options):
    encoder = moved(name, options)
    program = torch.export.export(Called(encoder), tuple(inputs((3, 4))))
    again = inputs((3, 4), seed=1)
    assert_same(program.module()(*again), hook_outputs(encoder, again))


@every_pair
def test_other_devices(name, options):
    encoder, given = moved(name, options).to("meta"), inputs((3, 4))
    out = hook_outputs(encoder, given._make(value.to("meta") for value in given))
    assert {value.device.type for value in out.values()} == {"meta"}
    assert as_grid((3, 4)) == encoder.grid
