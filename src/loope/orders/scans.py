"""Line-by-line orders: raster, column, snake, diagonal and spiral, each in closed form."""

import numpy as np
from torch import Tensor

from loope.core.grid import Grid
from loope.orders.base import Cells, as_index, inverse, register_order


def cells(grid: Grid) -> tuple[Cells, Cells]:
    """Row `(h, 1)` and column `(1, w)` of the cells, ready to broadcast."""
    return np.arange(grid.height)[:, None], np.arange(grid.width)[None, :]


@register_order("raster")
def raster(grid: Grid) -> Tensor:
    """Row after row, each from left to right: the order of nearly every vision transformer."""
    return as_index(np.arange(grid.size).reshape(grid))


@register_order("column")
def column(grid: Grid) -> Tensor:
    """Column after column, each from top to bottom."""
    return as_index(np.arange(grid.size).reshape(grid.width, grid.height).T)


@register_order("snake")
def snake(grid: Grid) -> Tensor:
    """Row after row, every second one from right to left, so that each step is to an edge neighbour."""
    row, col = cells(grid)
    return as_index(row * grid.width + np.where(row % 2 == 0, col, grid.width - 1 - col))


@register_order("diagonal")
def diagonal(grid: Grid) -> Tensor:
    """Anti-diagonals in turn up and down, as JPEG's zigzag does."""
    row, col = cells(grid)
    line = row + col
    # Within a line, odd ones walk down (growing row), even ones walk up (growing column).
    return ranks(line * max(grid) + np.where(line % 2 == 1, row, col))


@register_order("spiral")
def spiral(grid: Grid) -> Tensor:
    """Ring after ring, clockwise from the top left corner inwards."""
    row, col = cells(grid)
    ring = np.minimum(np.minimum(row, grid.height - 1 - row), np.minimum(col, grid.width - 1 - col))
    height, width = grid.height - 2 * ring, grid.width - 2 * ring
    row, col = row - ring, col - ring
    # On a ring, the first side that holds a cell decides: top, right, bottom, left.
    bottom, left = 2 * width + height - 3 - col, 2 * (width + height) - 4 - row
    on_ring = np.where(row == height - 1, bottom, left)
    on_ring = np.where(col == width - 1, width - 1 + row, on_ring)
    on_ring = np.where(row == 0, col, on_ring)
    return as_index(grid.size - height * width + on_ring)


def ranks(codes: Cells) -> Tensor:
    """`(h, w)` distinct numbers to their ranks 0..N-1."""
    return as_index(inverse(codes.ravel().argsort()).reshape(codes.shape))
