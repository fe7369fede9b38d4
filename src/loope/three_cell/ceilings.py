"""The best possible Three-Cell scores of models with incomplete knowledge of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.three_cell.bits import BITS, by_task
from loope.three_cell.questions import answer, compare_distances, signed_area
from loope.three_cell.sampling import count_triples, require_triples


class Ceilings(NamedTuple):
    """The best possible scores by sub-task, over all triples weighted as by the exact sampler.

    Attributes:
        constant: the best constant answer, as of a transformer without positions.
        relative: the best answer given RG and RB, but not the position of red.
    """

    constant: dict[str, float]
    relative: dict[str, float]


def ceilings(grid: Grid) -> Ceilings:
    """Compute the ceilings of a grid by enumerating all triples; takes seconds at 14x14, cubic in the number of cells.

    Examples:
        >>> best = ceilings(Grid(3, 3))
        >>> round(best.constant["vector_sum"], 3), round(best.relative["vector_sum"], 3)
        (0.574, 0.704)
    """
    require_triples(grid)
    rows, columns = 2 * grid.height - 1, 2 * grid.width - 1
    total = torch.zeros((rows * columns) ** 2, dtype=torch.int64)
    yes = torch.zeros(len(BITS), len(total), dtype=torch.int64)
    case = torch.zeros_like(total)
    for red in torch.stack(grid.coordinates(), dim=1):
        triples = _triples_of(red, grid)
        shape = _number(triples[:, 1:] - red + torch.tensor(grid) - 1, rows, columns)
        total += shape.bincount(minlength=len(total))
        # Translation does not change distances, so all placements of a shape have the same case.
        case[shape] = compare_distances(triples).sign()
        for bit, answers in enumerate(answer(triples, grid).T):
            yes[bit] += shape[answers == 1].bincount(minlength=len(total))

    constant, relative = torch.zeros(len(BITS), dtype=torch.float64), torch.zeros(len(BITS), dtype=torch.float64)
    for which in (-1, 0, 1):
        ours = case == which
        weight = 1 / (3 * total[ours].sum().double())  # each case has weight 1/3
        relative += torch.maximum(yes, total - yes)[:, ours].sum(1) * weight
        constant += yes[:, ours].sum(1) * weight
    constant = torch.maximum(constant, 1 - constant)
    return Ceilings(by_task(constant.tolist()), by_task(relative.tolist()))


def ceiling_if_alike(grid: Grid, looks: Tensor) -> dict[str, float]:
    """Return the best possible scores by sub-task if some cells look the same, weighted as by `ceilings`.

    Args:
        grid: the grid of cells.
        looks: `(N,)` integers, one per cell, row-major; cells with equal numbers are indistinguishable.

    Examples:
        >>> row, column = Grid(3, 3).coordinates()
        >>> ceiling_if_alike(Grid(3, 3), row)["orientation"]  # rows do not distinguish left and right
        0.5

    Raises:
        LoopeError: if the grid has no valid triples, or `looks` has another length.
    """
    require_triples(grid)
    require(
        looks.shape == (grid.size,), f"looks must have {grid.size} numbers for {grid} cells, got {list(looks.shape)}."
    )
    _, looks = torch.unique(looks, return_inverse=True)
    kinds = int(looks.max()) + 1
    counts = count_triples(grid)
    of_case = 1 / (3 * torch.tensor([counts.shorter, counts.equal, counts.longer], dtype=torch.float64))
    cells = torch.stack(grid.coordinates(), dim=1)
    best = torch.zeros(len(BITS), dtype=torch.float64)
    for kind in range(kinds):
        triples = torch.cat([_triples_of(red, grid) for red in cells[looks == kind]])
        _, green, blue = looks[triples[..., 0] * grid.width + triples[..., 1]].unbind(1)
        seen = green * kinds + blue
        weight = of_case[compare_distances(triples).sign() + 1]
        total = seen.bincount(weight)
        for bit, answers in enumerate(answer(triples, grid).T):
            yes = seen.bincount(weight * answers)
            best[bit] += torch.maximum(yes, total - yes).sum()
    return by_task(best.tolist())


def ceiling_of_view(grid: Grid, view: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """Return the best possible scores by sub-task of a model that sees a view of the cells, weighted as by `ceilings`.

    Args:
        grid: the grid of cells.
        view: takes all valid triples, `(n, 3, 2)` int64, and returns what the model sees of each, `(n, k)` integers.

    Examples:
        >>> relative = ceiling_of_view(Grid(3, 3), lambda cells: (cells[:, 1:] - cells[:, :1]).flatten(1))
        >>> round(relative["vector_sum"], 3)
        0.704

    Raises:
        LoopeError: if the grid has no valid triples.
    """
    require_triples(grid)
    triples = torch.cat([_triples_of(red, grid) for red in torch.stack(grid.coordinates(), dim=1)])
    _, seen = torch.unique(view(triples), dim=0, return_inverse=True)
    case = compare_distances(triples).sign()
    weight = 1 / (3 * (case + 1).bincount(minlength=3).double())[case + 1]  # each case has weight 1/3
    total = seen.bincount(weight)
    yes = [seen.bincount(weight * answers) for answers in answer(triples, grid).T]
    return by_task([float(torch.maximum(each, total - each).sum()) for each in yes])


def _triples_of(red: Tensor, grid: Grid) -> Tensor:
    """Return all valid triples with this red cell, `(n, 3, 2)`."""
    cells = torch.stack(grid.coordinates(), dim=1)
    green, blue = cells.repeat_interleave(grid.size, 0), cells.repeat(grid.size, 1)
    triples = torch.stack((red.expand_as(green), green, blue), dim=1)
    return triples[signed_area(triples) != 0]


def _number(steps: Tensor, rows: int, columns: int) -> Tensor:
    """Return a unique index per pair of non-negative steps `(n, 2, 2)`: `(n,)`."""
    green, blue = (steps[..., 0] * columns + steps[..., 1]).unbind(1)
    return green * rows * columns + blue
