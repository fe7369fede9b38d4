"""Rotary encoders with fixed wave vectors: their formulas as loops, timm's and transformers' DINOv3, symmetry."""

import math

import pytest
import torch
from timm.layers import RotaryEmbeddingDinoV3, apply_rot_embed_cat
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit.modeling_dinov3_vit import DINOv3ViTRopePositionEmbedding, apply_rotary_pos_emb

import loope
from loope import Positions

GRID, DIM, HEADS = (4, 6), 48, 3
WIDTH = DIM // HEADS
CELLS = [(row, column) for row in range(GRID[0]) for column in range(GRID[1])]


def make(name, **options):
    return loope.create_encoder(name, options.pop("dim", DIM), options.pop("grid", GRID), heads=HEADS, **options)


@pytest.fixture
def q():
    return torch.randn(2, HEADS, len(CELLS), WIDTH, generator=torch.Generator().manual_seed(1))


def test_dinov3_is_its_formula():
    encoder = make("rope_dinov3").double()
    ours = encoder.angles(GRID, 0)
    assert ours.shape == (1, 1, 24, WIDTH // 2)
    for number, (row, column) in enumerate(CELLS):
        y, x = 2 * (row + 0.5) / 4 - 1, 2 * (column + 0.5) / 6 - 1
        slow = [2 * math.pi * at / 100 ** (2 * m / (WIDTH / 2)) for at in (y, x) for m in range(WIDTH // 4)]
        assert ours[0, 0, number].tolist() == pytest.approx(slow)


@pytest.mark.parametrize("grid", [GRID, (14, 14), (7, 3)])
def test_dinov3_is_timms(grid):
    encoder = make("rope_dinov3", grid=grid)
    q = torch.randn(2, HEADS, grid[0] * grid[1], WIDTH)
    theirs = RotaryEmbeddingDinoV3(WIDTH, feat_shape=list(grid)).get_embed()
    for ours, given in zip(encoder.rotate(q, q + 1, grid, 0), (q, q + 1), strict=True):
        torch.testing.assert_close(ours, apply_rot_embed_cat(given, theirs, half=True), atol=2e-5, rtol=0)


def test_dinov3_is_transformers(q):
    config = DINOv3ViTConfig(hidden_size=DIM, num_attention_heads=HEADS, patch_size=4, image_size=16)
    theirs = DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 16, 24))
    ours = make("rope_dinov3").rotate(q, q + 1, GRID, 0)
    for one, other in zip(ours, apply_rotary_pos_emb(q, q + 1, *theirs), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=0)


def test_golden_is_its_formula():
    encoder = make("rope_golden", temperature=50.0).double()
    ours = encoder.angles(GRID, 0)
    pairs = WIDTH // 2
    assert ours.shape == (1, HEADS, 24, pairs)
    for head in range(HEADS):
        for pair in range(pairs):
            direction = (head * pairs + pair) * math.pi * (math.sqrt(5) - 1) / 2
            frequency = (1 / 50) * 50 ** (pair / (pairs - 1))
            slow = [frequency * (math.cos(direction) * x + math.sin(direction) * y) for y, x in CELLS]
            assert ours[0, head, :, pair].tolist() == pytest.approx(slow)


def test_golden_directions_are_spread_evenly():
    """Any number of successive directions leaves no gap of more than twice and a bit the even one."""
    vectors = make("rope_golden")._vectors().flatten(0, 1)
    for count in (8, 13, 24):
        angles = (torch.atan2(vectors[:count, 0], vectors[:count, 1]) % math.pi).sort().values
        gaps = torch.diff(torch.cat((angles, angles[:1] + math.pi)))
        assert float(gaps.max()) < 2.2 * math.pi / count
        assert float(gaps.min()) > 0.4 * math.pi / count


@pytest.mark.parametrize("directions", [2, 4, 6])
def test_spiral_is_its_formula(directions):
    """Eq. 8 to 13 of the paper: direction k has frequencies 2k, 2k + 1, 2k + K, 2k + K + 1, ... and so has k + K/2."""
    width = 48
    encoder = make("rope_spiral", directions=directions, dim=width * HEADS).double()
    ours, count, seen = encoder.angles(GRID, 0), width // 4, 0
    for k in range(directions):
        phi, second_half = k * math.pi / directions, k >= directions // 2
        for start in range(2 * (k % (directions // 2)), count, directions):
            for number in (start, start + 1):
                frequency = 100 ** (-number / count)
                slow = [frequency * (math.cos(phi) * x + math.sin(phi) * y) for y, x in CELLS]
                assert ours[0, 0, :, number + second_half * count].tolist() == pytest.approx(slow)
                seen += 1
    assert seen == 2 * count


def test_spiral_deals_out_frequencies_as_in_the_papers_example():
    """With K = 4 and d = 32: frequencies 0, 1, 4, 5 along 0 and 90 degrees, 2, 3, 6, 7 along 45 and 135."""
    vectors = make("rope_spiral", dim=32 * HEADS)._vectors()[0]
    for half, (first, second) in enumerate(((0, 45), (90, 135))):
        for number, wave in enumerate(vectors[8 * half : 8 * half + 8]):
            degrees = math.degrees(math.atan2(wave[0], wave[1]))
            assert degrees == pytest.approx(first if number in (0, 1, 4, 5) else second, abs=1e-9)
            assert float(wave.norm()) == pytest.approx(100 ** (-number / 8))


def test_two_directions_are_the_axes():
    """The first half turns with the column here, with the row in `rope_axial`."""
    spiral, axial = make("rope_spiral", directions=2), make("rope_axial")
    rows, columns = axial.angles(GRID, 0).chunk(2, dim=-1)
    torch.testing.assert_close(spiral.angles(GRID, 0), torch.cat((columns, rows), dim=-1), atol=1e-6, rtol=1e-6)


def test_simplex_is_its_formula():
    encoder = make("rope_simplex").double()
    ours, scales = encoder.angles(GRID, 0), WIDTH // 2 // 3
    for pair in range(WIDTH // 2):
        scale, corner = divmod(pair, 3)
        frequency = 100 ** (-scale / scales) if scale < scales else 0.0
        direction = corner * 2 * math.pi / 3
        slow = [frequency * (math.cos(direction) * x + math.sin(direction) * y) for y, x in CELLS]
        assert ours[0, 0, :, pair].tolist() == pytest.approx(slow)


def turned(points, degrees):
    angle = math.radians(degrees)
    row, column = points.unbind(-1)
    return torch.stack(
        (row * math.cos(angle) + column * math.sin(angle), column * math.cos(angle) - row * math.sin(angle)), dim=-1
    )


def kernel(encoder, points):
    """The score of equal vectors, whose pairs have equal length, against the first point."""
    angles = encoder.angles(Positions((encoder.grid,), moved=points[None]), 0)[0]
    return (angles - angles[:, :1]).cos().mean((0, 2))


def test_simplex_has_no_special_axis():
    encoder, axial = make("rope_simplex").double(), make("rope_axial").double()
    points = 5 * torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for degrees in (60, 120, 240):
        torch.testing.assert_close(kernel(encoder, turned(points, degrees)), kernel(encoder, points))
        assert not torch.allclose(kernel(axial, turned(points, degrees)), kernel(axial, points))
    torch.testing.assert_close(kernel(encoder, points + torch.tensor([3.0, -7.5])), kernel(encoder, points))


def test_simplex_falls_alike_in_all_directions():
    """The second moment of the wave vectors of each frequency is a multiple of the identity."""
    for three in make("rope_simplex")._vectors()[0, : WIDTH // 2 // 3 * 3].view(-1, 3, 2):
        length = three.norm(dim=-1)
        torch.testing.assert_close(three.T @ three, 1.5 * length[0] ** 2 * torch.eye(2, dtype=torch.float64))
        torch.testing.assert_close(three.sum(0), torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("name", ["rope_dinov3", "rope_golden", "rope_spiral", "rope_simplex"])
def test_scores_depend_on_offsets_alone_and_lengths_stay(name, q):
    encoder = make(name)
    same = q[:, :, :1].expand_as(q)
    ours, other = encoder.rotate(same, same.flip(-1), encoder.grid, 1)
    torch.testing.assert_close(ours.norm(dim=-1), same.norm(dim=-1))
    scores = (ours @ other.mT).view(2, HEADS, *GRID, *GRID)
    torch.testing.assert_close(scores[..., 0, 0, 1, 2], scores[..., 2, 3, 3, 5], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(scores[..., 0, 0, 1, 2], scores[..., 0, 0, 2, 1])


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("rope_spiral", {"directions": 3}, "even"),
        ("rope_spiral", {"directions": 0}, "directions"),
        ("rope_simplex", {"dim": 12}, "at least 8"),
        ("rope_dinov3", {"extrapolate": "ntk"}, "extrapolate"),
        ("rope_golden", {"temperature": 0}, "temperature"),
    ],
)
def test_bad_options(name, options, word):
    with pytest.raises(loope.LoopeError, match=word):
        make(name, **options)
