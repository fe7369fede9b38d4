"""Additive encoders against slow formulas and against timm."""

import math

import pytest
import torch
from timm.layers import build_sincos2d_pos_embed, resample_abs_pos_embed
from torch.nn import functional as F

import loope
from loope.core.grid import Grid
from loope.encoders.frequencies import SETS, frequency_set


def slow_sinusoid(order: list[int], frequencies: list[float], checkerboard: bool = False) -> list[list[float]]:
    """Eq. `our`, entry by entry in Python floats; `order` is the position of each cell, row-major."""
    return [
        [math.sin(w * x + math.pi / 2 * (((i + j) if checkerboard else i) % 2)) for i, w in enumerate(frequencies)]
        for j, x in enumerate(order)
    ]


def slow_frequencies(name: str, count: int) -> list[float]:
    return {
        "vaswani": [10000 ** (-2 * (i // 2) / count) for i in range(count)],
        "original": [0.978**i for i in range(count)],
        "arithmetic": [1 - i * (1 - 0.0001) / (count - 1) for i in range(count)],
        "geometric": [0.9**i for i in range(count)],
    }[name]


@pytest.mark.parametrize("name", ["vaswani", "original", "arithmetic", "geometric"])
def test_frequency_sets(name):
    assert frequency_set(name, 768).tolist() == pytest.approx(slow_frequencies(name, 768), rel=1e-12)


def test_random_frequencies_are_seeded_sorted_and_in_range():
    drawn = frequency_set("random", 4096)
    assert torch.equal(drawn, frequency_set("random:0", 4096))
    assert not torch.equal(drawn, frequency_set("random:1", 4096))
    assert bool((drawn.diff() <= 0).all())
    assert 0.0001 <= drawn.min() < 0.01
    assert 0.99 < drawn.max() <= 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.03)


def test_papers_sum_of_relative_changes():
    """Supp. A.6: with i from 0 the relative changes of the three sets sum to 6.51, give or take the random draw."""
    base = frequency_set("original", 768)
    change = sum(
        (frequency_set(name, 768) - base).norm() / base.norm() for name in ("arithmetic", "geometric", "random")
    )
    assert change == pytest.approx(6.51, abs=0.35)


def test_options_and_tensors_as_frequencies():
    assert frequency_set("geometric:0.5", 4).tolist() == [1, 0.5, 0.25, 0.125]
    own = torch.tensor([0.5, 0.25])
    encoder = loope.create_encoder("sinusoid", 2, (1, 3), frequencies=own)
    expected = slow_sinusoid([0, 1, 2], own.tolist())
    torch.testing.assert_close(encoder(None)[0], torch.tensor(expected))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("vaswany", "Unknown frequency set 'vaswany'; use one of: vaswani"),
        ("vaswani:3", "cannot take the option '3'"),
        ("geometric:x", "cannot take the option 'x'"),
        ("geometric:", "cannot take the option ''"),
        ("geometric:2", "cannot take the option '2'; use 'geometric:0.95' .a ratio above 0 and at most 1"),
        ("geometric:nan", "cannot take the option 'nan'"),
        ([1.0] * 8, "must be a set's name or a tensor, got list"),
        (torch.ones(8, dtype=torch.complex64), "one real value"),
        (torch.ones(3), r"one real value for each of the 8 channels, got torch.float32 of shape \(3,\)"),
        (torch.tensor([1.0] * 7 + [float("nan")]), "finite"),
    ],
)
def test_bad_frequencies(bad, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.create_encoder("sinusoid", 8, 3, frequencies=bad)


@pytest.mark.parametrize("name", sorted(set(SETS) - {"random"}))
@pytest.mark.parametrize("order", ["raster", "gilbert", "spiral"])
@pytest.mark.parametrize("phase", ["channel", "checkerboard"])
def test_sinusoid_is_the_slow_formula(name, order, phase):
    encoder = loope.create_encoder("sinusoid", 64, (7, 28), order=order, frequencies=name, phase=phase).double()
    index = loope.create_order(order, 7, 28).index.flatten().tolist()
    slow = slow_sinusoid(index, slow_frequencies(name, 64), phase == "checkerboard")
    torch.testing.assert_close(encoder(None)[0], torch.tensor(slow, dtype=torch.float64), atol=1e-11, rtol=0)
    torch.testing.assert_close(
        encoder.float()(None)[0].double(), torch.tensor(slow, dtype=torch.float64), atol=1e-7, rtol=0
    )


def test_gilbert_is_sinusoid_on_the_gilbert_order():
    one, other = (
        loope.create_encoder("gilbert", 64, (9, 5)),
        loope.create_encoder("sinusoid", 64, (9, 5), order="gilbert"),
    )
    assert torch.equal(one(None), other(None))
    assert not torch.equal(one(None), loope.create_encoder("sinusoid", 64, (9, 5))(None))


def test_a_custom_order():
    order = loope.create_order("hilbert", 4, 4).reverse()
    encoder = loope.create_encoder("sinusoid", 8, 4, order=order)
    # The cell at position p of the reversed curve has the vector of position p.
    by_position = encoder(None)[0][order.path @ torch.tensor([4, 1])]
    assert torch.equal(by_position, loope.create_encoder("sinusoid", 8, 4)(None)[0])
    with pytest.raises(loope.LoopeError, match="for a grid of 4x4 cells, got 5x5"):
        encoder(None, positions=5)
    with pytest.raises(loope.LoopeError, match="for a grid of 4x4 cells, got 2x2"):
        loope.create_encoder("sinusoid", 8, 2, order=order)
    with pytest.raises(loope.LoopeError, match="Unknown order 'gilber'"):
        loope.create_encoder("loope", 8, 2, patch_size=2, order="gilber")


@pytest.mark.parametrize("name", ["sinusoid", "gilbert", "loope"])
@pytest.mark.parametrize("how", ["cast", "autocast"])
def test_indices_above_256_stay_distinct_in_bfloat16(name, how):
    still = {"patch_size": 2, "zero_init": True} if name == "loope" else {}  # moved patches may meet
    encoder = loope.create_encoder(name, 768, (24, 26), **still).eval()
    images = torch.rand(1, 3, 48, 52)
    if how == "cast":
        vectors = encoder.bfloat16()(images.bfloat16())[0]
    else:
        with torch.autocast("cpu", torch.bfloat16):
            vectors = encoder(images)[0].bfloat16()
    assert vectors.dtype == torch.bfloat16
    order = loope.create_order("raster" if name == "sinusoid" else "gilbert", 24, 26)
    along = vectors[order.path @ torch.tensor([26, 1])][256:601]
    assert len(along.unique(dim=0)) == 345
    # The check can fail: indices that were rounded to bfloat16 before the sine do collide.
    assert len(torch.arange(256, 601).bfloat16().unique()) < 345


@pytest.mark.parametrize("grid", [(14, 14), (7, 28), (1, 9)])
def test_sincos2d_is_timms_up_to_the_order_of_channels(grid):
    ours = loope.create_encoder("sincos2d", 48, grid)(None)[0]
    theirs = build_sincos2d_pos_embed(list(grid), dim=48, interleave_sin_cos=True)  # row: sines, cosines; column: same
    theirs = theirs.view(-1, 2, 2, 12).transpose(2, 3).reshape(-1, 48)  # sine and cosine of a frequency side by side
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_sincos2d_sum_is_the_sum_and_cannot_tell_mirrored_cells():
    table = loope.create_encoder("sincos2d_sum", 16, (5, 5)).double()(None)[0].view(5, 5, 16)
    w = slow_frequencies("vaswani", 16)
    for row in range(5):
        for column in range(5):
            y, x = -1 + row / 2, -1 + column / 2
            slow = [
                math.sin(w[i] * y + math.pi / 2 * (i % 2)) + math.sin(w[i] * x + math.pi / 2 * (i % 2))
                for i in range(16)
            ]
            assert table[row, column].tolist() == pytest.approx(slow, abs=1e-12)
    assert torch.equal(table, table.transpose(0, 1))
    apart = loope.create_encoder("sincos2d", 16, (5, 5))(None)[0].view(5, 5, 16)
    assert not torch.allclose(apart, apart.transpose(0, 1))


@pytest.mark.parametrize(("old", "new"), [((14, 14), (24, 24)), ((14, 14), (7, 28)), ((8, 6), (5, 11))])
def test_learned_resamples_as_timm_does(old, new):
    encoder = loope.create_encoder("learned", 16, old)
    theirs = resample_abs_pos_embed(encoder.table, list(new), list(old), num_prefix_tokens=0)
    assert torch.equal(encoder(None, positions=new), theirs)
    assert torch.equal(encoder.resize(new)(None), theirs)
    half = loope.create_encoder("learned", 16, old).bfloat16()
    assert torch.equal(
        half(None, positions=new), resample_abs_pos_embed(half.table, list(new), list(old), num_prefix_tokens=0)
    )


def test_learned_starts_small():
    assert loope.create_encoder("learned", 64, 14).table.std().item() == pytest.approx(0.02, rel=0.1)
    assert loope.create_encoder("learned", 64, 14, std=0.5).table.std().item() == pytest.approx(0.5, rel=0.1)
    with pytest.raises(loope.LoopeError, match="`std` must be a positive number, got -1"):
        loope.create_encoder("learned", 64, 14, std=-1)


def test_resize_keeps_what_is_frozen_frozen():
    encoder = loope.create_encoder("loope", 8, 3, patch_size=2).requires_grad_(False)
    encoder.resize(4)
    assert not any(parameter.requires_grad for parameter in encoder.parameters())


@pytest.mark.parametrize(("amplitude", "size"), [("unit", 1), ("li", math.sqrt(10))])
def test_fourier_is_the_formula(amplitude, size):
    encoder = loope.create_encoder(
        "fourier", 12, (3, 4), features=10, hidden=6, gamma=2.0, amplitude=amplitude
    ).double()
    wr, (first, _, second) = encoder.projection, encoder.mlp
    for number, (row, column) in enumerate((r, c) for r in range(3) for c in range(4)):
        place = torch.tensor([-1 + row, -1 + column * 2 / 3], dtype=torch.float64)
        waves = torch.cat((torch.cos(place @ wr), torch.sin(place @ wr))) / size
        slow = second.weight @ F.gelu(first.weight @ waves + first.bias) + second.bias
        torch.testing.assert_close(encoder(None)[0, number], slow)
    spread = loope.create_encoder("fourier", 4000, 2, gamma=10.0).projection.std().item()
    assert spread == pytest.approx(0.1, rel=0.1)
    with pytest.raises(loope.LoopeError, match="amplitude"):
        loope.create_encoder("fourier", 4, 2, amplitude="sqrt")


def test_fourier_uses_unit_amplitudes_by_default():
    torch.manual_seed(0)
    encoder = loope.create_encoder("fourier", 96, 7)
    assert encoder.amplitude == "unit"
    assert "amplitude='unit'" in repr(encoder)


def test_none_is_nothing():
    encoder = loope.create_encoder("none", 6, (2, 3))
    assert torch.equal(encoder(None), torch.zeros(1, 6, 6))
    assert torch.equal(encoder.similarity(), torch.ones(6, 6))


@pytest.mark.parametrize(
    ("name", "dim", "message"),
    [
        ("sinusoid", 7, "`dim` must be divisible by 2 for 'sinusoid', got 7; use 6 or 8"),
        ("gilbert", 7, "`dim` must be divisible by 2 for 'gilbert', got 7; use 6 or 8"),
        ("loope", 7, "`dim` must be divisible by 2 for 'loope', got 7; use 6 or 8"),
        ("sincos2d", 190, "`dim` must be divisible by 4 for 'sincos2d', got 190; use 188 or 192"),
        ("sincos2d_sum", 9, "`dim` must be divisible by 2 for 'sincos2d_sum', got 9; use 8 or 10"),
    ],
)
def test_widths_an_encoder_cannot_take(name, dim, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.create_encoder(name, dim, 3, patch_size=2)


def test_encoders_must_be_classes_of_the_protocol_and_may_have_free_options():
    with pytest.raises(loope.LoopeError, match=r"must be a subclass of loope\.PositionalEncoder"):
        loope.register_encoder("function")(lambda dim, grid: None)

    @loope.register_encoder("free")
    class Free(loope.PositionalEncoder):
        def __init__(self, dim, grid, **options):
            super().__init__(dim, grid)
            self.options = options

    assert loope.create_encoder("free", 8, 2, heads=3, colour="red").options == {"colour": "red"}


def test_options_are_checked():
    with pytest.raises(
        loope.LoopeError, match=r"Unknown option of the encoder 'sinusoid': 'heads_'; use one of: phase,"
    ):
        loope.create_encoder("sinusoid", 8, 3, heads_=2)
    with pytest.raises(loope.LoopeError, match="Unknown phase 'chanel'; use one of: channel, checkerboard"):
        loope.create_encoder("sinusoid", 8, 3, phase="chanel")
    with pytest.raises(loope.LoopeError, match="`features` must be divisible by 2"):
        loope.create_encoder("fourier", 8, 3, features=3)
    with pytest.raises(loope.LoopeError, match="`gamma` must be a positive number"):
        loope.create_encoder("fourier", 8, 3, gamma=0.0)
    with pytest.raises(loope.LoopeError, match="Unknown encoder 'rope'; use one of: rope_axial, rope_mixed, rope_"):
        loope.create_encoder("rope", 8, 3)
    with pytest.raises(
        loope.LoopeError, match=r"The encoder 'irpe' needs `heads` and `depth`; pass heads=\.\.\., depth=\.\.\."
    ):
        loope.create_encoder("irpe", 8, 3)


def test_similarity_is_the_cosine():
    encoder = loope.create_encoder("learned", 16, (3, 4))
    a, b = encoder.table[0, 2], encoder.table[0, 7]
    torch.testing.assert_close(encoder.similarity()[2, 7], F.cosine_similarity(a, b, dim=0))
    assert encoder.similarity(Grid(2, 2)).shape == (4, 4)
