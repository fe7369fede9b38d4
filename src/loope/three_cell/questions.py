"""The four questions of Three-Cell as functions of the cells, in integer arithmetic.

`cells[n, k]` is (row, column) of k = red, green, blue. x is the column; y is the height of the cell's centre above the
bottom edge, (h - 1 - row) + 1/2, so that y points up as in the paper's figures. Halves are avoided by doubling: with
floats, rounding would decide ties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from loope.core.grid import Grid
from loope.core.serial import in_pieces
from loope.three_cell.bits import BITS

# Labels are computed from tensors on any device; samplers use arrays.
Numbers = TypeVar("Numbers", Tensor, NDArray[Any])


def distance(cells: Tensor, grid: Grid) -> Tensor:
    """Return bits 0 and 1, `(n, 2)` bool: RG is longer than RB; RG is shorter than RB."""
    difference = compare_distances(cells)
    return torch.stack((difference > 0, difference < 0), dim=1)


def orientation(cells: Tensor, grid: Grid) -> Tensor:
    """Return bit 2, `(n, 1)` bool: R, G, B are in counterclockwise order."""
    return (signed_area(cells) > 0)[:, None]


def area(cells: Tensor, grid: Grid) -> Tensor:
    """Return bits 3 and 4, `(n, 2)` bool: the shadow of RG is larger than that of RB; it is smaller.

    The shadow of PQ is the trapezoid between the segment and the bottom edge, |x_P - x_Q| (y_P + y_Q) / 2.
    """
    (red_row, red_column), (green_row, green_column), (blue_row, blue_column) = _columns(cells)
    # y_P + y_Q = 2h - 1 - row_P - row_Q is an integer; the common factor 1/2 is omitted.
    height = 2 * grid.height - 1 - red_row
    green = (green_column - red_column).abs() * (height - green_row)
    blue = (blue_column - red_column).abs() * (height - blue_row)
    return torch.stack((green > blue, green < blue), dim=1)


def vector_sum(cells: Tensor, grid: Grid) -> Tensor:
    """Return bit 5, `(n, 1)` bool: OR + OG + OB lies outside the grid, where O is its centre."""
    (red_row, red_column), (green_row, green_column), (blue_row, blue_column) = _columns(cells)
    # Doubled: |sum_x| > w/2 becomes |2 sum_x| > w. The two sides differ in parity, so no sum lies on the edge.
    across = 2 * (red_column + green_column + blue_column) - 3 * (grid.width - 1)
    down = 2 * (red_row + green_row + blue_row) - 3 * (grid.height - 1)
    return ((across.abs() > grid.width) | (down.abs() > grid.height))[:, None]


# In the order of the bits; the names are those of `loope.three_cell.bits.TASKS`.
QUESTIONS: dict[str, Callable[[Tensor, Grid], Tensor]] = {
    "distance": distance,
    "orientation": orientation,
    "area": area,
    "vector_sum": vector_sum,
}


def answer(cells: Tensor, grid: Grid) -> Tensor:
    """Answer all four questions about `(n, 3, 2)` cells: `(n, 6)` int64, 0 or 1.

    Examples:
        >>> answer(torch.tensor([[[2, 0], [1, 0], [2, 2]]]), Grid(3, 3)).tolist()
        [[0, 1, 0, 0, 1, 1]]
    """
    answers = cells.new_empty(len(cells), len(BITS))
    for some, given in in_pieces(answers, cells):
        # Make each coordinate contiguous in memory, since every question reads it several times.
        these = given.permute(1, 2, 0).contiguous().permute(2, 0, 1)
        some.copy_(torch.cat([question(these, grid) for question in QUESTIONS.values()], dim=1))
    return answers


def compare_distances(cells: Numbers) -> Numbers:
    """Return `(n,)` int64: positive where RG is longer than RB, negative where shorter, 0 where equal."""
    (red_row, red_column), (green_row, green_column), (blue_row, blue_column) = _columns(cells)
    green = (green_row - red_row) ** 2 + (green_column - red_column) ** 2
    blue = (blue_row - red_row) ** 2 + (blue_column - red_column) ** 2
    difference: Numbers = green - blue
    return difference


def signed_area(cells: Numbers) -> Numbers:
    """Return twice the signed area of RGB, `(n,)` int64: positive if counterclockwise, 0 if collinear."""
    (red_row, red_column), (green_row, green_column), (blue_row, blue_column) = _columns(cells)
    # The cross product of RG and RB; y points up, hence red_row - row.
    green_x, green_y = green_column - red_column, red_row - green_row
    blue_x, blue_y = blue_column - red_column, red_row - blue_row
    area: Numbers = green_x * blue_y - green_y * blue_x
    return area


def _columns(cells: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return row and column of red, green and blue, `(n,)` each."""
    return [(cells[:, which, 0], cells[:, which, 1]) for which in range(3)]
