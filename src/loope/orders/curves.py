"""Curves of squares whose side is a power of 2 or 3: Morton, Hilbert and Peano.

On other grids the order is that of the smallest enclosing square's curve: cells outside the grid are left out and the
rest keep their ranks. Every grid so gets a bijection, but where the curve leaves the grid and comes back, a step is
long.
"""

import numpy as np
from torch import Tensor

from loope.core.grid import Grid
from loope.orders.base import register_order
from loope.orders.scans import cells, ranks


def _digits(largest: int, base: int) -> int:
    """How many digits `largest` has in `base`, exactly (no logarithms)."""
    count = 0
    while base**count <= largest:
        count += 1
    return count


@register_order("morton")
def morton(grid: Grid) -> Tensor:
    """Morton's Z order: the bits of row and column interleaved.

    Defined on squares of side 2^n; on other grids by the ranks of the smallest enclosing one.
    """
    row, col = cells(grid)
    code = np.zeros(grid, dtype=np.int64)
    for bit in range(_digits(max(grid) - 1, 2)):
        code |= ((row >> bit & 1) << (2 * bit + 1)) | ((col >> bit & 1) << (2 * bit))
    return ranks(code)


@register_order("hilbert")
def hilbert(grid: Grid) -> Tensor:
    """Hilbert's curve from the top left to the top right corner.

    Defined on squares of side 2^n; on other grids by the ranks of the smallest enclosing one.
    """
    row, col = cells(grid)
    code = np.zeros(grid, dtype=np.int64)
    for bit in reversed(range(_digits(max(grid) - 1, 2))):
        side = 1 << bit
        right, down = (col & side) > 0, (row & side) > 0
        code = 4 * code + np.where(right, 3 - down, down)
        # Turn the quadrant so that the curve inside it starts as the whole does: the lower two are as they should be.
        row, col = row & (side - 1), col & (side - 1)
        mirrored = right & ~down
        row, col = np.where(mirrored, side - 1 - row, row), np.where(mirrored, side - 1 - col, col)
        row, col = np.where(down, row, col), np.where(down, col, row)
    return ranks(code)


@register_order("peano")
def peano(grid: Grid) -> Tensor:
    """Peano's curve: nine sub-squares column by column, each mirrored as its neighbours ask.

    Defined on squares of side 3^n; on other grids by the ranks of the smallest enclosing one.
    """
    row, col = cells(grid)
    code = np.zeros(grid, dtype=np.int64)
    row_sum = np.zeros(grid, dtype=np.int64)
    col_sum = np.zeros(grid, dtype=np.int64)
    for digit in reversed(range(_digits(max(grid) - 1, 3))):
        # Peano's operator maps a digit d to 2 - d, once for each unit of the other axis' digits so far.
        col_digit = col // 3**digit % 3
        col_digit = np.where(row_sum % 2 == 1, 2 - col_digit, col_digit)
        col_sum = col_sum + col_digit
        row_digit = row // 3**digit % 3
        row_digit = np.where(col_sum % 2 == 1, 2 - row_digit, row_digit)
        row_sum = row_sum + row_digit
        code = 9 * code + 3 * col_digit + row_digit
    return ranks(code)
