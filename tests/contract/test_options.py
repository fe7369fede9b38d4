"""The contract of encoders with each of their options, besides the defaults."""

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
OTHERS = [
    ("as2drope", {"scaling": "height", "base": 5}),
    ("rope_spiral", {"directions": 2}),
    ("liere", {"block": None}),
    ("lookhere", {"fov": 45, "directed": 3, "slope": 0.5}),
    ("rel_pos_mlp", {"base": (4, 2), "hidden": 8}),
    ("fire2d", {"scale": 1.0, "threshold": 2.0, "hidden": 8}),
    ("pape", {"parabolas": 2}),
    ("factorized", {"coordinates": "absolute"}),
]
ROTARY = [name for name in loope.list_encoders() if hasattr(encoder_class(name), "angles")]
PAIRS = [
    (name, options)
    for name in ROTARY
    for options in OPTIONS
    if options.keys() <= inspect.signature(encoder_class(name)).parameters.keys()
]
# Compilers see the same code in the others.
COMPILED = [pair for pair in PAIRS if pair[0] in ("rope_axial", "rope_mixed", "rope_golden", "rope_dinov3")]


def parametrized(pairs):
    return pytest.mark.parametrize(
        ("name", "options"),
        [pytest.param(name, each, id=f"{name}-{'-'.join(map(str, each.values()))}") for name, each in pairs],
    )


every_pair = parametrized([*PAIRS, *OTHERS])
every_rotary_pair = parametrized(PAIRS)
every_compiled_pair = parametrized([*COMPILED, *OTHERS])


def test_which_rotary_encoders_take_which_options():
    """Those that scale coordinates to every image have nothing to extrapolate."""
    taken = {name: set(inspect.signature(encoder_class(name)).parameters) for name in ROTARY}
    for name, options in taken.items():
        assert {"layout", "augment", "fuzzy", "basis", "refine"} <= options, name
        assert ("extrapolate" in options) == (name not in ("as2drope", "rope_dinov3")), name


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

    def taken(values, axis=2):
        return values.expand(len(rows), *values.shape[1:]).movedim(axis, 1)[rows, index].movedim(1, axis)

    some, whole = Positions.grid(3, 4).take(index), Positions.grid(3, 4)
    pairs = []
    if "embed" in encoder.hooks():
        pairs.append((encoder.embed(None, some), taken(encoder.embed(None, whole), 1)))
    if "rotate" in encoder.hooks():
        ours = encoder.rotate(taken(given.q), taken(given.k), some, 1)
        pairs += zip(ours, map(taken, encoder.rotate(given.q, given.k, whole, 1)), strict=True)
    if "bias" in encoder.hooks():
        dense = taken(taken(encoder.bias(given.q, whole, 1)), 3)
        pairs.append((encoder.bias(taken(given.q), some, 1), dense))
    for ours, expected in pairs:
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@every_rotary_pair
def test_strength_goes_from_nothing_to_everything(name, options):
    encoder, given = moved(name, options), inputs((3, 4))
    place = as_positions((3, 4))
    for strength, expected in ((0.0, (given.q, given.k)), (1.0, encoder.rotate(given.q, given.k, place, 1))):
        ours = encoder.rotate_partly(given.q, given.k, place, 1, torch.tensor(strength))
        for one, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0 if strength == 0 else 1e-5)


@every_rotary_pair
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


@every_compiled_pair
def test_compiles_without_graph_breaks(name, options):
    torch._dynamo.reset()
    encoder, given = moved(name, options), inputs((3, 4))
    compiled = torch.compile(Called(encoder), fullgraph=True, backend="aot_eager")
    assert_same(compiled(*given), hook_outputs(encoder, given))


@every_compiled_pair
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
