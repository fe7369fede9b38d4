"""Biases of pairs of patches, against loops over the published formulas and against timm."""

import math

import pytest
import torch
from timm.layers import RelPosMlp
from torch.nn import functional as F

import loope
from loope.positions import Positions

GRID, DIM, HEADS, DEPTH = (4, 6), 48, 3, 2
POSITIONS = {
    "whole": Positions.grid(4, 6),
    "some": Positions.grid(4, 6).take([[0, 7, 14, 3], [2, 1, 9, 9]]),
    "moved": Positions.grid(4, 6).jitter(torch.Generator().manual_seed(0)),
    "padded": Positions.batch([(2, 3), (3, 4)]),
    "packed": Positions.packed([(2, 3), (1, 1), (3, 3)]),
}


def make(name, heads=HEADS, grid=GRID, depth=DEPTH, **options):
    torch.manual_seed(0)
    return loope.create_encoder(name, 48, grid, heads=heads, depth=depth, **options).double()


def bias_of(encoder, layer, positions=None):
    place = positions or Positions((encoder.grid,))
    q = torch.zeros(place.rows, encoder.heads, place.length, 4, dtype=torch.float64)
    return encoder.bias(q, place, layer).detach()


def mlp(encoder, layer, inputs):
    """The perceptron of a block, unit by unit."""
    with torch.no_grad():
        total = torch.zeros(encoder.heads, dtype=torch.float64)
        for unit, start in enumerate(encoder.mlps.start[layer]):
            slopes = encoder.mlps.first[layer, :, unit]
            at = start + sum(slope * value for slope, value in zip(slopes, inputs, strict=True))
            total += max(at, 0) * encoder.mlps.last[layer, unit]
        return total


def cells(grid):
    return [(row, column) for row in range(grid[0]) for column in range(grid[1])]


class TestRelPosMlp:
    @pytest.mark.parametrize(("grid", "base"), [((4, 6), None), ((5, 3), (3, 7)), ((7, 7), (4, 4))])
    def test_is_timms_less_a_constant(self, grid, base):
        encoder = make("rel_pos_mlp", grid=grid, hidden=16, base=base)
        for layer in range(DEPTH):
            theirs = RelPosMlp(grid, HEADS, 16, mode="swin", pretrained_window_size=base or (0, 0)).double().eval()
            theirs._init_buffers()
            with torch.no_grad():
                theirs.mlp.fc1.weight.copy_(encoder.mlps.first[layer].T)
                theirs.mlp.fc1.bias.copy_(encoder.mlps.start[layer])
                theirs.mlp.fc2.weight.copy_(encoder.mlps.last[layer].T)
            torch.testing.assert_close(bias_of(encoder, layer) + 8, theirs.get_bias().detach(), atol=1e-6, rtol=0)

    @pytest.mark.parametrize("layer", range(DEPTH))
    def test_against_a_double_loop(self, layer):
        encoder = make("rel_pos_mlp", hidden=8)
        ours = bias_of(encoder, layer)
        for i, query in enumerate(cells(GRID)):
            for j, key in enumerate(cells(GRID)):
                spaced = []
                for a, b, size in zip(query, key, GRID, strict=True):
                    share = (a - b) / (size - 1)
                    spaced.append(math.copysign(math.log2(1 + 8 * abs(share)) / 3, share))
                slow = 16 / (1 + torch.exp(-mlp(encoder, layer, spaced))) - 8
                torch.testing.assert_close(ours[0, :, i, j], slow)

    def test_offsets_run_from_minus_one_to_one_on_every_grid_or_on_the_base(self):
        corner = {}
        for name, base in (("own", None), ("base", (4, 6))):
            encoder = make("rel_pos_mlp", base=base)
            corner[name] = [bias_of(encoder, 0, Positions.grid(*grid))[0, :, 0, -1] for grid in (GRID, (8, 12))]
        torch.testing.assert_close(*corner["own"])
        torch.testing.assert_close(corner["own"][0], corner["base"][0])
        assert not torch.allclose(*corner["base"])

    def test_prefix_tokens_are_not_shut_out_at_the_start(self):
        assert bias_of(make("rel_pos_mlp"), 0).abs().max() < 4

    def test_a_single_row_has_no_offsets_across(self):
        assert bias_of(make("rel_pos_mlp", grid=(1, 1)), 0).isfinite().all()


COMPASS = ["right", "left", "up", "down", "up right", "down left", "up left", "down right"]
ANGLES = {"right": 0, "up right": 45, "up": 90, "up left": 135, "left": 180, "down left": 225, "down": 270}
ANGLES["down right"] = 315


def slow_lookhere(query, key, direction, fov, slope):
    """The definition, in degrees; directions as seen, with rows that run down."""
    distance = math.dist(query, key)
    if distance and direction is not None:
        angle = math.degrees(math.atan2(query[0] - key[0], key[1] - query[1]))
        centre = ANGLES[direction] + (22.5 if fov == 45 else 0)
        turned = abs((angle - centre + 180) % 360 - 180)
        if turned > fov / 2 + 1e-3:
            return -math.inf
    return -slope * distance


class TestLookHere:
    @pytest.mark.parametrize("fov", [45, 90, 180, 360])
    @pytest.mark.parametrize(
        ("heads", "directions", "slopes"),
        [
            (12, [*COMPASS, None, None, None, None], [*[1] * 8, 1 / 2, 1 / 8, 1 / 32, 1 / 128]),
            (6, [*COMPASS[:4], None, None], [*[1] * 4, 1 / 2, 1 / 8]),
            (3, ["right", "left", None], [1, 1, 1 / 2]),
            (1, [None], [1 / 2]),
        ],
    )
    def test_against_the_definition(self, heads, directions, slopes, fov):
        encoder = make("lookhere", heads, depth=3, fov=fov, slope=0.7)
        for layer, of_layer in enumerate((1.5, 1.0, 0.5)):
            ours = bias_of(encoder, layer)
            for i, query in enumerate(cells(GRID)):
                for j, key in enumerate(cells(GRID)):
                    slow = [
                        slow_lookhere(query, key, direction, fov, 0.7 * of_layer * slope)
                        for direction, slope in zip(directions, slopes, strict=True)
                    ]
                    assert ours[0, :, i, j].tolist() == pytest.approx(slow, abs=1e-9)

    def test_between_cells_it_is_the_definition_too(self):
        ours = bias_of(make("lookhere", 12), 0, POSITIONS["moved"])
        points = POSITIONS["moved"].coordinates[0].tolist()
        slopes = [*[1] * 8, 1 / 2, 1 / 8, 1 / 32, 1 / 128]
        for i, query in enumerate(points):
            for j, key in enumerate(points):
                slow = [
                    slow_lookhere(query, key, direction, 90, 1.5 * slope)
                    for direction, slope in zip([*COMPASS, *[None] * 4], slopes, strict=True)
                ]
                assert ours[0, :, i, j].tolist() == pytest.approx(slow, abs=1e-6)

    @pytest.mark.parametrize("fov", [180, 90, 45])
    def test_fields_of_view_are_the_published_ones(self, fov):
        """The paper's eight views of a fov, as comparisons of how far up and right a key is."""
        grid = (5, 7)
        points = torch.tensor(cells(grid))
        up = points[:, None, 0] - points[:, 0]
        right = points[:, 1] - points[:, None, 1]
        halves = {"up": up >= 0, "down": up <= 0, "left": right <= 0, "right": right >= 0}
        quarters = {"up": up >= right.abs(), "down": -up >= right.abs()}
        quarters |= {"left": -right >= up.abs(), "right": right >= up.abs()}
        corners = [(one, other) for one in ("up", "down") for other in ("left", "right")]
        if fov == 180:
            expected = [*halves.values(), *(quarters[one] | quarters[other] for one, other in corners)]
        elif fov == 90:
            expected = [*quarters.values(), *(halves[one] & halves[other] for one, other in corners)]
        else:  # each quarter cut in two
            expected = [quarters[a] & halves[b] for corner in corners for a, b in (corner, corner[::-1])]
        views = bias_of(make("lookhere", 12, grid, fov=fov), 0)[0, :8].isfinite()
        found = {tuple(view.flatten().tolist()) for view in views}
        assert found == {tuple(view.flatten().tolist()) for view in expected}
        assert len(found) == 8

    def test_eight_heads_of_45_degrees_see_each_patch_once_and_twice_where_they_meet(self):
        views = bias_of(make("lookhere", 12, fov=45), 0)[0, :8].isfinite().sum(0)
        points = torch.tensor(cells(GRID))
        down, right = (points[:, None] - points).abs().unbind(-1)
        meet = (down == 0) | (right == 0) | (down == right)
        assert (views == torch.where(meet, 2, 1) + 6 * torch.eye(24, dtype=torch.int64)).all()

    def test_two_heads_of_180_degrees_see_everything(self):
        assert bias_of(make("lookhere", 3, fov=180), 0)[0, :2].isfinite().any(0).all()

    def test_more_than_eight_directed_heads_begin_again_at_half_the_slope(self):
        views = bias_of(make("lookhere", 16), 0)[0]
        assert torch.equal(views[0], 2 * views[8])
        assert torch.equal(views[1], 2 * views[9])
        assert views[10].isfinite().all()

    def test_more_than_four_undirected_heads_share_four_slopes(self):
        next_patch = bias_of(make("lookhere", 8, directed=0, depth=1), 0)[0, :, 0, 1]
        slopes = [1 / 2, 1 / 2, 1 / 8, 1 / 8, 1 / 32, 1 / 32, 1 / 128, 1 / 128]
        assert next_patch.tolist() == pytest.approx([-1.5 * slope for slope in slopes])

    @pytest.mark.parametrize("kind", POSITIONS)
    @pytest.mark.parametrize("prefix", [0, 2])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_attention_is_never_nan(self, kind, prefix, dtype):
        positions, encoder = POSITIONS[kind], make("lookhere", 12, fov=45)
        if kind == "packed" and prefix:
            pytest.skip("a packed sequence has no prefix tokens")
        q = torch.randn(positions.rows, 12, positions.length, 4, dtype=dtype)
        k = v = torch.randn(positions.rows, 12, positions.length + prefix, 4, dtype=dtype)
        bias = encoder.to(dtype).bias_with_prefix(q, positions, 1, prefix)
        assert (bias.amax(-1) > -torch.inf).all()
        assert F.scaled_dot_product_attention(F.pad(q, (0, 0, prefix, 0)), k, v, attn_mask=bias).isfinite().all()

    def test_prefix_tokens_see_and_are_seen_by_all(self):
        q = torch.zeros(1, 12, 24, 4)
        bias = make("lookhere", 12).bias_with_prefix(q, Positions.grid(*GRID), 0, 2)
        assert not bias[:, :, :2].any()
        assert not bias[..., :2].any()
        torch.testing.assert_close(bias[:, :, 2:, 2:], bias_of(make("lookhere", 12), 0).float())

    def test_similarity_is_the_attention_at_equal_scores(self):
        encoder = make("lookhere", 12)
        found = encoder.similarity()
        assert torch.equal(found.diagonal(), torch.ones(24, dtype=torch.float64))
        mean = sum(bias_of(encoder, layer)[0].exp().mean(0) for layer in range(DEPTH)) / DEPTH
        torch.testing.assert_close(found, mean)
        loope.pesi_from_similarity(loope.encoder_similarity(encoder), GRID)


class TestFire2d:
    @pytest.mark.parametrize("threshold", [2.0, 30.0])
    def test_on_a_row_it_is_fire(self, threshold):
        """b(i, j) = MLP(log(c (i - j) + 1) / log(c max(L, i) + 1)), wherever no key is farther than the first."""
        encoder, length = make("fire2d", grid=(1, 11), scale=0.3, threshold=threshold), 11
        ours = bias_of(encoder, 1)
        for i in range(length // 2, length):
            for j in range(i + 1):
                share = math.log(0.3 * (i - j) + 1) / math.log(0.3 * max(threshold, i) + 1)
                slow = mlp(encoder, 1, [share])
                torch.testing.assert_close(ours[0, :, i, j], slow, atol=1e-7, rtol=0)

    @pytest.mark.parametrize("layer", range(DEPTH))
    def test_against_a_double_loop(self, layer):
        encoder = make("fire2d", threshold=4.5)  # between the farthest corners of some patches and those of others
        with torch.no_grad():
            encoder.scale[1] = 0.7
        ours, c = bias_of(encoder, layer), encoder.scale[layer].item()
        corners = [(0, 0), (0, 5), (3, 0), (3, 5)]
        for i, query in enumerate(cells(GRID)):
            for j, key in enumerate(cells(GRID)):
                farthest = max(4.5, *(math.dist(query, corner) for corner in corners))
                share = math.log(c * math.dist(query, key) + 1) / math.log(c * farthest + 1)
                slow = mlp(encoder, layer, [share])
                torch.testing.assert_close(ours[0, :, i, j], slow, atol=1e-7, rtol=0)

    @pytest.mark.parametrize("value", [0.0, -3.0])
    def test_learned_numbers_cannot_make_it_nan(self, value):
        for grid in ((1, 1), GRID):
            encoder = make("fire2d", grid=grid)
            with torch.no_grad():
                encoder.scale.fill_(value)
                encoder.threshold.fill_(value)
            assert bias_of(encoder, 0).isfinite().all()


@pytest.mark.parametrize("name", ["rel_pos_mlp", "fire2d"])
def test_similarity_is_the_mean_bias(name):
    encoder = make(name)
    mean = sum(bias_of(encoder, layer)[0].mean(0) for layer in range(DEPTH)) / DEPTH
    torch.testing.assert_close(encoder.similarity().detach(), mean)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lookhere", {"fov": 0}, "`fov` must be a positive number"),
        ("lookhere", {"fov": 361}, "`fov` must be an angle"),
        ("lookhere", {"directed": 4}, "`directed` must be at most 3"),
        ("lookhere", {"directed": -1}, "`directed` must be a whole number from 0 up"),
        ("lookhere", {"slope": -1.0}, "`slope` must be"),
        ("rel_pos_mlp", {"hidden": 0}, "`hidden` must be"),
        ("rel_pos_mlp", {"base": (0, 3)}, "`base` must be"),
        ("fire2d", {"threshold": 0}, "`threshold` must be"),
        ("fire2d", {"scale": "x"}, "`scale` must be"),
    ],
)
def test_bad_input(name, options, message):
    with pytest.raises(loope.LoopeError, match=message):
        make(name, **options)
