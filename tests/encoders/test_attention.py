"""Encoders that act on tokens and in attention, against loops and against timm."""

import math

import pytest
import torch
from timm.layers import RotaryEmbeddingCat, RotaryEmbeddingMixed, apply_rot_embed_cat

import loope
from loope.encoders.irpe import piecewise_index

GRID, DIM, HEADS, DEPTH = (4, 6), 48, 3, 2
CELLS = [(row, column) for row in range(GRID[0]) for column in range(GRID[1])]


def make(name, **options):
    torch.manual_seed(0)
    return loope.create_encoder(name, DIM, options.pop("grid", GRID), heads=HEADS, depth=DEPTH, **options)


@pytest.fixture
def q():
    return torch.randn(2, HEADS, len(CELLS), DIM // HEADS, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("temperature", [100.0, 10.0])
def test_axial_rotary_is_timms(q, temperature):
    encoder = make("rope_axial", temperature=temperature)
    theirs = RotaryEmbeddingCat(
        DIM // HEADS, in_pixels=False, temperature=temperature, feat_shape=list(GRID)
    ).get_embed()
    for ours, given in zip(encoder.rotate(q, q + 1, encoder.grid, 0), (q, q + 1), strict=True):
        torch.testing.assert_close(ours, apply_rot_embed_cat(given, theirs), atol=1e-5, rtol=0)


@pytest.mark.parametrize("layer", range(DEPTH))
def test_mixed_rotary_is_timms_with_the_same_parameters(q, layer):
    encoder = make("rope_mixed")
    theirs = RotaryEmbeddingMixed(DIM, DEPTH, HEADS, feat_shape=list(GRID), grid_indexing="ij")
    assert encoder.frequencies.shape == theirs.freqs.shape
    with torch.no_grad():
        theirs.freqs.copy_(encoder.frequencies)
    for ours, given in zip(encoder.rotate(q, q + 1, encoder.grid, layer), (q, q + 1), strict=True):
        torch.testing.assert_close(ours, apply_rot_embed_cat(given, theirs.get_embed()[layer]), atol=1e-5, rtol=0)


def test_mixed_rotary_starts_as_axial_in_a_turned_frame():
    frequencies = make("rope_mixed").frequencies.detach()
    length = frequencies.square().sum(0).sqrt()
    bands = torch.tensor([10 ** (-i / 4) for i in range(4)] * 2)
    torch.testing.assert_close(length, bands.expand(DEPTH, HEADS, 8))
    first, second = frequencies.chunk(2, dim=-1)
    torch.testing.assert_close((first * second).sum(0), torch.zeros(DEPTH, HEADS, 4), atol=1e-6, rtol=0)
    assert not torch.allclose(frequencies[0, 0, 0], frequencies[0, 1, 2])


def test_scaled_rotary_is_exact_whatever_the_default_dtype():
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        encoder = loope.create_encoder("as2drope", DIM, (7, 29), heads=HEADS).double()
        rough = encoder.angles(encoder.grid, 0)
    finally:
        torch.set_default_dtype(before)
    torch.testing.assert_close(
        rough, loope.create_encoder("as2drope", DIM, (7, 29), heads=HEADS).double().angles(encoder.grid, 0)
    )


def test_scaled_rotary_is_axial_at_the_base_grid_and_scales_elsewhere():
    axial = make("rope_axial", grid=(7, 14), temperature=10_000.0)
    rows, columns = axial.angles(axial.grid, 0)[0].chunk(2, dim=-1)
    for scaling, columns_by in (("axis", 1 / 2), ("height", 1.0)):
        scaled = make("as2drope", grid=(7, 14), base=7, scaling=scaling)
        torch.testing.assert_close(scaled.angles(scaled.grid, 0)[0], torch.cat((rows, columns * columns_by), dim=-1))
    same = loope.create_encoder("as2drope", DIM, 14, heads=HEADS)
    expected = make("rope_axial", grid=14, temperature=10_000.0).angles(same.grid, 0)
    torch.testing.assert_close(same.angles(same.grid, 0), expected)


def test_scaled_rotary_is_visionllamas_formula():
    """Positions times base / height, frequencies 10000^(-4 i / d), the first half of the pairs for the row."""
    encoder = make("as2drope", scaling="height")
    width = DIM // HEADS
    for number, (row, column) in enumerate(CELLS):
        angles = [
            place * 14 / GRID[0] * 10_000 ** (-4 * i / width) for place in (row, column) for i in range(width // 4)
        ]
        expected = torch.tensor(angles, dtype=torch.float64).float()
        torch.testing.assert_close(encoder.angles(encoder.grid, 0)[0, 0, number], expected)


@pytest.mark.parametrize("name", ["rope_axial", "rope_mixed", "as2drope"])
def test_rotary_scores_depend_on_offsets_alone_and_lengths_stay(name, q):
    encoder = make(name)
    same = q[:, :, :1].expand_as(q)
    turned, other = encoder.rotate(same, same.flip(-1), encoder.grid, 1)
    torch.testing.assert_close(turned.norm(dim=-1), same.norm(dim=-1))
    scores = (turned @ other.transpose(-1, -2)).view(2, HEADS, *GRID, *GRID)
    torch.testing.assert_close(scores[..., 0, 0, 1, 2], scores[..., 2, 3, 3, 5], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(scores[..., 0, 0, 1, 2], scores[..., 0, 0, 2, 1])


@pytest.mark.parametrize("name", ["rope_axial", "rope_mixed", "as2drope"])
def test_rotary_similarity_is_the_mean_cosine(name):
    encoder = make(name)
    layers = range(DEPTH if name == "rope_mixed" else 1)
    angles = torch.stack([encoder.angles(encoder.grid, layer)[0] for layer in layers])  # (layers, heads, N, d/2)
    for i, j in [(0, 0), (3, 17), (20, 5)]:
        expected = (angles[:, :, i] - angles[:, :, j]).cos().mean()
        torch.testing.assert_close(encoder.similarity()[i, j], expected, atol=1e-5, rtol=0)


def slow_bucket(x: int) -> int:
    """iRPE's piecewise function for one offset (alpha 1.9, beta 3.8, gamma 15.2)."""
    if abs(x) <= 1.9:
        return x
    far = round(1.9 + math.log(abs(x) / 1.9) / math.log(15.2 / 1.9) * (3.8 - 1.9))
    return int(math.copysign(min(3, far), x))


def test_piecewise_index():
    offsets = list(range(-40, 41))
    assert piecewise_index(torch.tensor(offsets)).tolist() == [slow_bucket(x) for x in offsets]
    assert [slow_bucket(x) for x in (0, 1, 2, 3, 5, 6, 13, 30)] == [0, 1, 2, 2, 3, 3, 3, 3]


@pytest.mark.parametrize("layer", range(DEPTH))
@pytest.mark.parametrize("grid", [(4, 6), (1, 9), (6, 4)])
def test_irpe_against_a_double_loop_over_cell_pairs(layer, grid):
    encoder = make("irpe", grid=grid)
    torch.nn.init.normal_(encoder.tables)
    cells = [(row, column) for row in range(grid[0]) for column in range(grid[1])]
    q = torch.randn(2, HEADS, len(cells), DIM // HEADS)
    ours = encoder.bias(q, encoder.grid, layer)
    assert ours.shape == (2, HEADS, len(cells), len(cells))
    for i, (row, column) in enumerate(cells):
        for j, (other_row, other_column) in enumerate(cells):
            bucket = (slow_bucket(row - other_row) + 3) * 7 + slow_bucket(column - other_column) + 3
            slow = (q[:, :, i] / math.sqrt(DIM // HEADS)) @ encoder.tables[layer, bucket]
            torch.testing.assert_close(ours[:, :, i, j], slow, atol=1e-5, rtol=1e-5)


def test_irpe_as_a_bias_has_a_number_for_each_bucket(q):
    encoder = make("irpe", mode="bias")
    assert encoder.tables.shape == (DEPTH, 49, 1)
    torch.nn.init.normal_(encoder.tables)
    ours = encoder.bias(q, encoder.grid, 1)
    assert ours.shape == (1, HEADS, 24, 24)
    for i, j in [(0, 0), (0, 23), (23, 0), (7, 8)]:
        (a, b), (c, d) = CELLS[i], CELLS[j]
        expected = encoder.tables[1, (slow_bucket(a - c) + 3) * 7 + slow_bucket(b - d) + 3, 0]
        assert torch.equal(ours[0, :, i, j], expected.expand(HEADS))
    torch.testing.assert_close(
        encoder.similarity()[3, 9], encoder.bias(q, encoder.grid, 0)[0, 0, 3, 9] / 2 + ours[0, 0, 3, 9] / 2
    )


def test_irpe_starts_from_no_bias_and_its_similarity_is_that_of_a_query_of_ones():
    encoder = make("irpe")
    assert not encoder.tables.any()
    torch.nn.init.normal_(encoder.tables)
    ones = torch.ones(1, HEADS, 24, DIM // HEADS)
    mean = (encoder.bias(ones, encoder.grid, 0) + encoder.bias(ones, encoder.grid, 1))[0, 0] / 2
    torch.testing.assert_close(encoder.similarity(), mean, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_alibi_is_minus_slope_times_distance(heads):
    encoder = loope.create_encoder("alibi2d", 48, GRID, heads=heads)
    ours = encoder.bias(torch.randn(1, heads, 24, 2), encoder.grid, 0)
    for i, cell in enumerate(CELLS):
        for j, other in enumerate(CELLS):
            slow = [-(2 ** (-8 * (h + 1) / heads)) * math.dist(cell, other) for h in range(heads)]
            assert ours[0, :, i, j].tolist() == pytest.approx(slow, abs=1e-5)
    torch.testing.assert_close(encoder.similarity(), ours[0].mean(0))


def test_peg_is_a_residual_depthwise_convolution_with_zero_padding():
    encoder, tokens = make("peg", after=1), torch.randn(2, 24, DIM)
    assert encoder.mix(tokens, encoder.grid, 0) is tokens
    ours = encoder.mix(tokens, encoder.grid, 1).view(2, *GRID, DIM)
    maps, kernel, bias = tokens.view(2, *GRID, DIM), encoder.convolution.weight, encoder.convolution.bias
    for row, column in CELLS:
        slow = maps[:, row, column] + bias
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if 0 <= row + dy < GRID[0] and 0 <= column + dx < GRID[1]:
                    slow = slow + maps[:, row + dy, column + dx] * kernel[:, 0, dy + 1, dx + 1]
        torch.testing.assert_close(ours[:, row, column], slow, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rope_axial", {"dim": 30, "heads": 3}, "divisible by 12 for 'rope_axial' with 3 heads, got 30; use 24 or 36"),
        ("rope_mixed", {"dim": 30, "heads": 3, "depth": 1}, "divisible by 12 for 'rope_mixed'"),
        ("as2drope", {"dim": 48, "heads": 3, "base": 0}, "`base` must be"),
        ("rope_axial", {"dim": 48, "heads": 3, "temperature": 0}, "`temperature` must be a positive number, got 0"),
        ("irpe", {"dim": 50, "heads": 3, "depth": 1}, "divisible by 3 for 'irpe' with 3 heads, got 50; use 48 or 51"),
        ("irpe", {"dim": 48, "heads": 3, "depth": 1, "mode": "keys"}, "Unknown mode 'keys'"),
        ("irpe", {"dim": 48, "heads": 3, "depth": 0}, "`depth` must be"),
        ("as2drope", {"dim": 48, "heads": 3, "scaling": "width"}, "Unknown scaling 'width'"),
        ("alibi2d", {"dim": 48, "heads": 0}, "`heads` must be"),
        ("peg", {"dim": 48, "after": -1}, "`after` must be a whole number from 0 up, got -1"),
    ],
)
def test_bad_input(name, options, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.create_encoder(name, grid=3, **options)
