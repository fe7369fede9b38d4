"""What can be scored without positions, or with some of them: against plain counting in fractions."""

from collections import defaultdict
from fractions import Fraction

import pytest
import torch

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.encoders.irpe import piecewise_index
from loope.three_cell import ThreeCell
from loope.three_cell.bits import by_task
from loope.three_cell.ceilings import ceiling_if_alike, ceiling_of_view, ceilings
from tests.three_cell.reference import label, triples


def counted(grid, sees):
    """The best scores of a model to which triples with the same `sees(red, green, blue)` are one, by counting."""
    labelled = [(three, label(*grid, *three)) for three in triples(*grid)]
    cases = [tuple(bits[:2]) for _, bits in labelled]
    weight = {case: Fraction(1, 3 * cases.count(case)) for case in set(cases)}
    groups = defaultdict(lambda: [[Fraction(0), Fraction(0)] for _ in range(6)])
    for three, bits in labelled:
        for place, bit in enumerate(bits):
            groups[sees(*three)][place][bit] += weight[tuple(bits[:2])]
    best = by_task([sum(max(counts[place]) for counts in groups.values()) for place in range(6)])
    return {task: float(rate) for task, rate in best.items()}


def steps_from_red(red, green, blue):
    return green[0] - red[0], green[1] - red[1], blue[0] - red[0], blue[1] - red[1]


@pytest.mark.parametrize("grid", [Grid(3, 3), Grid(3, 5), Grid(4, 2)], ids=str)
def test_ceilings_agree_with_counting(grid):
    found = ceilings(grid)
    relative = counted(grid, steps_from_red)
    assert found.constant == pytest.approx(counted(grid, lambda red, green, blue: None), abs=1e-12)
    assert found.relative == pytest.approx(relative, abs=1e-12)
    assert relative["distance"] == relative["orientation"] == 1


@pytest.mark.parametrize("grid", [Grid(3, 3), Grid(3, 5), Grid(4, 2)], ids=str)
@pytest.mark.parametrize(
    "look", [lambda r, c: r, lambda r, c: (r + 2 * c) % 5 - 7, lambda r, c: 10 * max(r, c) + min(r, c)]
)
def test_the_ceiling_of_cells_that_look_alike_agrees_with_counting(grid, look):
    looks = torch.tensor([look(row, column) for row in range(grid.height) for column in range(grid.width)])
    seen = counted(grid, lambda *cells: tuple(look(*cell) for cell in cells))
    assert ceiling_if_alike(grid, looks) == pytest.approx(seen, abs=1e-12)


def test_cells_that_all_look_alike_or_none_do():
    grid = Grid(4, 5)
    assert ceiling_if_alike(grid, torch.zeros(20, dtype=torch.long)) == pytest.approx(
        ceilings(grid).constant, abs=1e-12
    )
    assert ceiling_if_alike(grid, torch.arange(20)) == pytest.approx(dict.fromkeys(ceilings(grid).constant, 1.0))


def test_swapping_row_and_column_of_all_cells_turns_the_triangle_around():
    row, column = Grid(5, 5).coordinates()
    unordered = 5 * torch.maximum(row, column) + torch.minimum(row, column)
    assert ceiling_if_alike(Grid(5, 5), unordered)["orientation"] == pytest.approx(0.5)


def test_looks_that_do_not_fit_the_grid():
    with pytest.raises(LoopeError, match="9 numbers for 3x3 cells"):
        ceiling_if_alike(Grid(3, 3), torch.arange(8))


def test_samples_come_near_the_constant_ceiling():
    found = ceilings(Grid(6, 6)).constant
    assert ThreeCell(100_000, 6, seed=1).majority_rates() == pytest.approx(found, abs=0.01)


def test_thin_grids_have_none():
    with pytest.raises(LoopeError, match="not on one line"):
        ceilings(Grid(1, 5))


def symmetric(side):
    """What is the same for all eight images that mirrors and quarter turns make of one."""

    def view(cells):
        seen = []
        for _ in range(4):
            cells = torch.stack((cells[..., 1], side - 1 - cells[..., 0]), dim=-1)  # a quarter turn
            seen += [cells.flatten(1), torch.stack((cells[..., 0], side - 1 - cells[..., 1]), dim=-1).flatten(1)]
        numbers = torch.stack(seen) @ (side ** torch.arange(6))
        return numbers.amin(0)[:, None]

    return view


def buckets(cells):
    red, green, blue = cells.unbind(1)
    return torch.cat([piecewise_index(one - other) for one, other in ((green, red), (blue, red), (blue, green))], dim=1)


def one_convolution(cells):
    """What 3x3 neighbourhoods show: cells at most one from the border, and pairs at most two apart."""
    near = torch.where((cells <= 1) | (cells >= 5), cells, 2).flatten(1)
    pairs = [cells[:, one] - cells[:, other] for one, other in ((1, 0), (2, 0), (2, 1))]
    return torch.cat([near, *(torch.where(pair.abs().amax(1, keepdim=True) <= 2, pair, 9) for pair in pairs)], dim=1)


def relative(cells):
    return (cells[:, 1:] - cells[:, :1]).flatten(1)


def test_the_ceiling_of_a_view_agrees_with_the_others():
    grid = Grid(4, 5)
    assert ceiling_of_view(grid, relative) == pytest.approx(ceilings(grid).relative)
    assert ceiling_of_view(grid, lambda cells: cells[:, :1, 0] * 0) == pytest.approx(ceilings(grid).constant)
    rows = grid.coordinates()[0]
    assert ceiling_of_view(grid, lambda cells: cells[..., 0]) == pytest.approx(ceiling_if_alike(grid, rows))


def test_ceilings_of_encoders_in_docs_results_plateau():
    grid = Grid(7, 7)
    percent = {name: f"{100 * value:.1f}" for name, value in ceiling_of_view(grid, symmetric(7)).items()}
    assert list(percent.values()) == ["100.0", "50.0", "71.2", "100.0", "80.3"]
    percent = {name: f"{100 * value:.1f}" for name, value in ceiling_of_view(grid, buckets).items()}
    assert list(percent.values()) == ["97.4", "99.5", "97.5", "68.8", "90.8"]
    percent = {name: f"{100 * value:.1f}" for name, value in ceiling_of_view(grid, one_convolution).items()}
    assert list(percent.values()) == ["96.6", "98.7", "96.4", "95.2", "96.7"]
