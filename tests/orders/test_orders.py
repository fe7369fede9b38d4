"""Every order on many rectangles, against slow recursions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import loope
from loope.orders import locality as scores
from tests.orders import reference

NAMES = ["raster", "column", "snake", "diagonal", "spiral", "morton", "hilbert", "peano", "gilbert"]
sides = st.integers(1, 40)


def path(name: str, height: int, width: int) -> list[tuple[int, int]]:
    return [tuple(cell) for cell in loope.create_order(name, height, width).path.tolist()]


def test_the_list_is_the_documented_one():
    assert loope.list_orders() == NAMES
    assert loope.list_orders("*bert") == ["hilbert", "gilbert"]


@pytest.mark.parametrize("name", NAMES)
@given(height=sides, width=sides)
def test_every_order_is_a_bijection_on_every_rectangle(name, height, width):
    order = loope.create_order(name, height, width)
    assert order.index.shape == (height, width)
    assert order.index.dtype == order.path.dtype == torch.int64
    assert sorted(order.index.flatten().tolist()) == list(range(height * width))
    row, column = order.path.unbind(1)
    assert torch.equal(order.index[row, column], torch.arange(height * width))


@given(height=sides, width=sides)
def test_gilbert_is_the_papers_recursion(height, width):
    assert path("gilbert", height, width) == [(y, x) for x, y in reference.gilbert2d(width, height)]


@pytest.mark.parametrize("size", [(100, 63), (63, 100), (1, 500), (500, 1), (97, 257), (128, 128)])
def test_gilbert_is_the_papers_recursion_on_large_grids(size):
    assert path("gilbert", *size) == [(y, x) for x, y in reference.gilbert2d(size[1], size[0])]


@given(height=sides, width=sides)
def test_gilbert_steps_to_edge_neighbours_but_for_one_diagonal_step(height, width):
    steps = loope.create_order("gilbert", height, width).path.diff(dim=0).abs()
    assert bool((steps <= 1).all())
    diagonal = int((steps.sum(1) == 2).sum())
    assert diagonal <= 1
    # A wide grid needs it only if its width is odd and its height even; a tall one the other way round.
    long, short = max(height, width), min(height, width)
    if long % 2 == 0 or short % 2 == 1:
        assert diagonal == 0


@pytest.mark.parametrize("order", range(5))
def test_curves_on_their_own_squares(order):
    assert path("hilbert", 2**order, 2**order) == reference.hilbert(order)
    assert path("morton", 2**order, 2**order) == reference.morton(order)
    assert path("peano", 3 ** min(order, 3), 3 ** min(order, 3)) == reference.peano(min(order, 3))


@pytest.mark.parametrize(
    ("name", "curve", "base"), [("hilbert", "hilbert", 2), ("morton", "morton", 2), ("peano", "peano", 3)]
)
@given(height=st.integers(1, 20), width=st.integers(1, 20))
def test_other_grids_keep_the_ranks_of_the_enclosing_curve(name, curve, base, height, width):
    power = next(n for n in range(6) if base**n >= max(height, width))
    whole = getattr(reference, curve)(power)
    assert path(name, height, width) == [(r, c) for r, c in whole if r < height and c < width]


@given(height=st.integers(1, 12), width=st.integers(1, 12))
def test_scans_against_walks(height, width):
    rows = [[(r, c) for c in range(width)] for r in range(height)]
    assert path("raster", height, width) == [cell for row in rows for cell in row]
    assert path("column", height, width) == [(r, c) for c in range(width) for r in range(height)]
    turned = [row[::-1] if number % 2 else row for number, row in enumerate(rows)]
    assert path("snake", height, width) == [cell for row in turned for cell in row]
    assert path("spiral", height, width) == reference.spiral(height, width)
    assert path("diagonal", height, width) == reference.zigzag(height, width)


@pytest.mark.parametrize("name", NAMES)
def test_reverse_and_transpose(name):
    order = loope.create_order(name, 5, 7)
    assert torch.equal(order.reverse().path, order.path.flip(0))
    assert torch.equal(order.reverse().reverse().index, order.index)
    assert torch.equal(order.transpose().path, order.path.flip(1))
    assert order.transpose().index.shape == (7, 5)
    assert torch.equal(loope.create_order("raster", 7, 5).transpose().index, loope.create_order("column", 5, 7).index)


def slow_locality(index: list[list[int]]) -> tuple[float, float, float]:
    cells = [(r, c) for r in range(len(index)) for c in range(len(index[0]))]
    steps, on_grid, on_curve = [], [], []
    for i, (r, c) in enumerate(cells):
        for s, d in cells[i + 1 :]:
            gap = abs(index[r][c] - index[s][d])
            on_grid.append(math.dist((r, c), (s, d)))
            on_curve.append(gap)
            if abs(r - s) + abs(c - d) == 1:
                steps.append(gap)
    return sum(steps) / len(steps), steps.count(1) / len(steps), spearmanr(on_grid, on_curve).statistic


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(4, 4), (3, 7), (1, 5)])
def test_locality_against_a_double_loop(name, size):
    order = loope.create_order(name, *size)
    assert order.locality() == pytest.approx(slow_locality(order.index.tolist()), abs=1e-12)


def test_locality_of_grids_too_small_for_it():
    assert all(math.isnan(score) for score in loope.create_order("raster", 1, 1).locality())
    pair = loope.create_order("raster", 1, 2).locality()
    assert pair[:2] == (1, 1)
    assert math.isnan(pair.rank_correlation)


def test_sampled_correlation_is_close_to_the_exact_one(monkeypatch):
    order = loope.create_order("gilbert", 31, 33)
    exact = order.locality().rank_correlation
    monkeypatch.setattr(scores, "EXACT_CELLS", 100)
    sampled = order.locality().rank_correlation
    # The standard error of a rank correlation over a million pairs is about 0.001.
    assert sampled == pytest.approx(exact, abs=0.003)
    assert sampled == order.locality().rank_correlation  # a fixed seed


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (torch.tensor([[0, 1], [1, 2]]), "each of 0..3 exactly once"),
        (torch.tensor([[0, 4], [1, 2]]), "each of 0..3 exactly once"),
        (torch.tensor([[0, -1]]), "each of 0..1 exactly once"),
        (torch.tensor([[0.0, 1.0]]), r"got torch.float32 \(1, 2\)"),
        (torch.tensor([0, 1]), r"\(2,\)"),
        (torch.empty(0, 3, dtype=torch.int64), "at least one cell"),
        ([[0, 1]], "got list"),
    ],
)
def test_an_index_that_is_no_order(index, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.Order(index)


def test_bad_input():
    with pytest.raises(loope.LoopeError, match=r"Unknown order 'gilbart'; use one of: gilbert, hilbert"):
        loope.create_order("gilbart", 2, 2)
    for size in [(0, 3), (3, -1)]:
        with pytest.raises(loope.LoopeError, match="at least 1x1"):
            loope.create_order("raster", *size)
    with pytest.raises(loope.LoopeError, match="whole number"):
        loope.create_order("raster", 2.5, 2)


def test_a_custom_order():
    @loope.register_order("upside_down")
    def upside_down(grid):
        return torch.arange(grid.size).view(grid).flip(0)

    assert loope.create_order("upside_down", 2, 2).index.tolist() == [[2, 3], [0, 1]]

    @loope.register_order("flat")
    def flat(grid):
        return torch.arange(grid.size)[None]

    with pytest.raises(loope.LoopeError, match="'flat' gave a grid of 1x4 cells when asked for 2x2"):
        loope.create_order("flat", 2, 2)
    with torch.device("meta"):
        assert loope.create_order("gilbert", 3, 4).index.device.type == "cpu"
    with pytest.raises(loope.LoopeError, match="registered already"):
        loope.register_order("raster")(upside_down)
