"""The contract of all registered encoders; a new encoder is tested automatically."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import loope
from loope.core.grid import Grid, as_grid
from tests.contract.calls import (
    BATCH,
    DEPTH,
    DIM,
    HEADS,
    NAMES,
    assert_same,
    every_encoder,
    hook_outputs,
    inputs,
    make,
    reads,
)

sides = st.integers(1, 11)
HIDES = {"lookhere"}  # patches outside of a head's field of view
LEARNED_BIASES = {"irpe", "rel_pos_mlp", "fire2d", "pape"}  # which need not be symmetric
SHAPES = {
    "embed": lambda n: [(1, n, DIM), (BATCH, n, DIM)],
    "mix": lambda n: [(BATCH, n, DIM)],
    "rotate": lambda n: [(BATCH, HEADS, n, DIM // HEADS)],
    "scores": lambda n: [(BATCH, HEADS, n, n)],
    "bias": lambda n: [(1, HEADS, n, n), (BATCH, HEADS, n, n)],
}


def tied_to_grid(name) -> bool:
    """Whether the shape of some parameter depends on the grid."""
    small, large = ([p.shape for p in make(name, side).parameters()] for side in (3, 5))
    return small != large


def test_the_list_matches_the_documents():
    additive = ["none", "learned", "sinusoid", "gilbert", "sincos2d", "sincos2d_sum", "fourier", "loope"]
    rotary = ["rope_axial", "rope_mixed", "as2drope", "rope_dinov3", "rope_golden", "rope_spiral", "rope_simplex"]
    new = ["rel_pos_mlp", "lookhere", "fire2d", "pape", "factorized"]
    assert [*additive, "peg", "irpe", "alibi2d", *rotary, "liere", *new] == NAMES
    assert loope.list_encoders("rope_*s*") == ["rope_spiral", "rope_simplex"]


@every_encoder
@settings(max_examples=15)
@given(height=sides, width=sides)
def test_shapes_on_any_grid(name, height, width):
    encoder, grid = make(name, (height, width)), Grid(height, width)
    out = hook_outputs(encoder, inputs(grid))
    assert out
    for hook, value in out.items():
        assert tuple(value.shape) in SHAPES[hook.split()[0]](grid.size)
        assert value.dtype == torch.float32
        if name in HIDES:
            assert not bool(value.isnan().any())
            assert bool((value.amax(-1) > -torch.inf).all()), "a row without any key gives NaN"
        else:
            assert bool(value.isfinite().all())
    assert encoder.similarity().shape == (grid.size, grid.size)


@every_encoder
@settings(max_examples=10)
@given(old=st.tuples(sides, sides), new=st.tuples(sides, sides))
def test_resize_equals_one_call_at_the_other_grid(name, old, new):
    encoder, grid = make(name, old).eval(), as_grid(new)
    one_call = hook_outputs(encoder, inputs(grid), grid)
    assert encoder.grid == as_grid(old)
    assert encoder.resize(new) is encoder
    assert encoder.grid == grid
    assert_same(hook_outputs(encoder, inputs(grid)), one_call)
    assert all(parameter.requires_grad for parameter in encoder.parameters())


@every_encoder
def test_grids_of_equal_size_differ(name):
    if name == "none":
        pytest.skip("no positions: nothing can differ")
    # The raster order numbers 4x4 and 2x8 the same, so use another one.
    encoder = make(name, (4, 4), **({"order": "column"} if name == "sinusoid" else {})).eval()
    # The same tokens as a 4x4 and as a 2x8 map; only the image, which LOOPE reads, needs the right shape.
    square, wide = (encoder.similarity(grid) for grid in ((4, 4), (2, 8)))
    assert not torch.allclose(square, wide)
    given, again = inputs((4, 4)), inputs((2, 8))
    one, other = (
        hook_outputs(encoder, given, Grid(4, 4)),
        hook_outputs(encoder, given._replace(images=again.images), Grid(2, 8)),
    )
    assert any(not torch.allclose(one[key], other[key]) for key in one)
    assert_same(hook_outputs(encoder, given, Grid(4, 4)), one)  # the cache of 2x8 is not used for 4x4


@every_encoder
def test_resize_there_and_back(name):
    encoder, given = make(name, (6, 6)).eval(), inputs((6, 6))
    before = hook_outputs(encoder, given)
    encoder.resize((12, 12)).resize((6, 6))
    after = hook_outputs(encoder, given)
    if tied_to_grid(name):  # resampling keeps most of the noise, not all
        for key in before:
            assert torch.corrcoef(torch.stack((before[key].flatten(), after[key].flatten())))[0, 1] > 0.9
    else:
        assert_same(after, before)


@every_encoder
def test_seeds_determine_the_parameters(name):
    assert_same(hook_outputs(make(name, 5, seed=3), inputs(5)), hook_outputs(make(name, 5, seed=3), inputs(5)))
    parameters = [
        torch.cat([p.flatten() for p in make(name, 5, seed=s).parameters()] or [torch.ones(1)]) for s in (3, 4)
    ]
    assert torch.equal(*parameters) == (not list(make(name, 5).parameters()))


@every_encoder
def test_state_dict_round_trip(name):
    source, target = make(name, (3, 5), seed=1).train(), make(name, (3, 5), seed=2).eval()
    hook_outputs(source, inputs((3, 5)))  # updates BatchNorm's running mean, fills the cache
    source.eval()
    state = source.state_dict()
    assert set(state) == {n for n, _ in source.named_parameters()} | {
        n for n in state if "running" in n or "num_b" in n
    }
    target.load_state_dict(state)
    assert_same(hook_outputs(target, inputs((3, 5))), hook_outputs(source, inputs((3, 5))))


@every_encoder
def test_copies_are_independent(name):
    encoder = make(name, (3, 5)).eval()
    before = hook_outputs(encoder, inputs((3, 5)))
    twin = copy.deepcopy(encoder)
    assert_same(hook_outputs(twin, inputs((3, 5))), before)
    twin.resize((2, 2))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert_same(hook_outputs(encoder, inputs((3, 5))), before)


@every_encoder
def test_gradients_flow_where_they_should(name):
    # If no ReLU is inactive, BatchNorm cancels the bias before it, whose gradient is then zero: use GELU.
    encoder = make(name, (3, 4), **({"activation": "gelu"} if name == "loope" else {})).train()
    given = inputs((3, 4))._make(value.requires_grad_() for value in inputs((3, 4)))
    draw = torch.Generator().manual_seed(5)
    out = hook_outputs(encoder, given)
    loss = sum((value * torch.randn(value.shape, generator=draw)).sum() for value in out.values())
    if not loss.requires_grad:
        assert not list(encoder.parameters())
        return
    loss.backward()
    for parameter_name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert bool(parameter.grad.isfinite().all())
        assert bool(parameter.grad.any()), parameter_name
    reached = {key for key, value in given._asdict().items() if value.grad is not None}
    assert reached == reads(encoder)


@every_encoder
def test_outputs_may_be_modified(name):
    encoder, given = make(name, (3, 4)).eval(), inputs((3, 4))
    before = {key: value.clone() for key, value in hook_outputs(encoder, given).items()}
    with torch.no_grad():
        for value in hook_outputs(encoder, inputs((3, 4))).values():
            value.contiguous().add_(1)  # a bias that all heads share is an expanded tensor
    assert_same(hook_outputs(encoder, given), before)


@every_encoder
def test_wrong_numbers_of_tokens_and_layers_are_errors(name):
    encoder, given, right = make(name, (3, 4)), inputs((3, 5)), inputs((3, 4))
    for hook in set(encoder.hooks()) - {"embed"}:
        wrong = {"mix": (given.tokens,), "rotate": (given.q, given.k), "bias": (given.q,)}[hook]
        with pytest.raises(loope.LoopeError, match="expects the 12 patches of a grid of 3x4, got 15 tokens"):
            getattr(encoder, hook)(*wrong, encoder.grid, 0)
        if any(parameter.shape[0] == DEPTH or parameter.shape[1:2] == (DEPTH,) for parameter in encoder.parameters()):
            for layer in (-1, DEPTH):
                with pytest.raises(loope.LoopeError, match=f"made for {DEPTH} blocks, 0 to 1, got layer {layer}"):
                    getattr(encoder, hook)(*[right.q] * len(wrong), encoder.grid, layer)


@every_encoder
def test_similarity_is_symmetric_and_largest_on_the_diagonal(name):
    similarity = make(name, (4, 5)).similarity().detach().double()
    if name not in LEARNED_BIASES:
        torch.testing.assert_close(similarity, similarity.T, atol=1e-5, rtol=0)
        assert bool((similarity.diagonal()[:, None] >= similarity - 1e-5).all())
    assert bool(similarity.isfinite().all())


@every_encoder
def test_a_missing_hook_names_the_existing_one(name):
    encoder = make(name, 2)
    for hook, arguments in {"embed": 2, "mix": 3, "rotate": 4, "bias": 3}.items():
        if hook not in encoder.hooks():
            with pytest.raises(
                loope.LoopeError, match=f"'{name}' has no `{hook}`; it acts through `{encoder.hooks()[0]}`"
            ):
                getattr(encoder, hook)(*[None] * arguments)


@every_encoder
def test_bad_input(name):
    context = {"patch_size": 4, "heads": 1, "depth": 1}
    for dim in (0, -8, 2.5):
        with pytest.raises(loope.LoopeError, match="`dim` must be a whole number from 1 up"):
            loope.create_encoder(name, dim, 3, **context)
    for grid in (0, (3, -1), "3x3", (1, 2, 3)):
        with pytest.raises(loope.LoopeError, match="`grid` must be"):
            loope.create_encoder(name, 32, grid, **context)
    with pytest.raises(loope.LoopeError, match="`grid` must be"):
        loope.create_encoder(name, 32, 3, **context).resize((3, 0))
    with pytest.raises(loope.LoopeError, match=rf"encoder '{name}'.*'colour'"):
        loope.create_encoder(name, 32, 3, colour="red", **context)
    assert f"grid={Grid(3, 3)}" in repr(loope.create_encoder(name, 32, 3, **context))
