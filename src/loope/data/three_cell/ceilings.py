"""What can be scored on Three-Cell without seeing where the cells are, or seeing only how they lie to each other."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.core.three_cell import BITS, by_task
from loope.data.three_cell.questions import answer, compare_distances, signed_area
from loope.data.three_cell.sampling import require_triples


class Ceilings(NamedTuple):
    """The best possible scores by sub-task, over all triples as the exact sampler weighs them.

    Attributes:
        constant: one answer to everything, as a transformer without positions gives.
        relative: the best answer to each shape, that is with RG and RB known and red's own place unknown.
    """

    constant: dict[str, float]
    relative: dict[str, float]


def ceilings(grid: Grid) -> Ceilings:
    """Count over all triples of a grid; some seconds at 14x14, and growing with the cube of the number of cells.

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
    cells = torch.stack(grid.coordinates(), dim=1)
    green, blue = cells.repeat_interleave(grid.size, 0), cells.repeat(grid.size, 1)
    for red in cells:
        triples = torch.stack((red.expand_as(green), green, blue), dim=1)
        triples = triples[signed_area(triples) != 0]
        shape = _number(triples[:, 1:] - red + torch.tensor(grid) - 1, rows, columns)
        total += shape.bincount(minlength=len(total))
        # Translation does not change the distances: a shape is of one case.
        case[shape] = compare_distances(triples).sign()
        for bit, answers in enumerate(answer(triples, grid).T):
            yes[bit] += shape[answers == 1].bincount(minlength=len(total))

    constant, relative = torch.zeros(len(BITS), dtype=torch.float64), torch.zeros(len(BITS), dtype=torch.float64)
    for which in (-1, 0, 1):
        ours = case == which
        weight = 1 / (3 * total[ours].sum().double())  # each case has a third of the whole
        relative += torch.maximum(yes, total - yes)[:, ours].sum(1) * weight
        constant += yes[:, ours].sum(1) * weight
    constant = torch.maximum(constant, 1 - constant)
    return Ceilings(by_task(constant.tolist()), by_task(relative.tolist()))


def _number(steps: Tensor, rows: int, columns: int) -> Tensor:
    """`(n,)`: one number for each pair of steps, `(n, 2, 2)` from 0 up."""
    green, blue = (steps[..., 0] * columns + steps[..., 1]).unbind(1)
    return green * rows * columns + blue
