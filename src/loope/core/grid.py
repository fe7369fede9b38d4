"""The grid of patches: its size and the coordinates of its cells."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from loope.core.errors import LoopeError, shown

if TYPE_CHECKING:
    from torch import Tensor

GridLike: TypeAlias = int | Sequence[int]

MOST_CELLS = 2**26  # of a grid, 8192x8192: beyond, an order alone takes more than half a gigabyte
LARGEST = sys.float_info.max
MOST = 2**31 - 1  # of any other size


class Grid(NamedTuple):
    """`height` x `width` cells, row-major.

    Examples:
        >>> grid = Grid(2, 3)
        >>> grid.size, str(grid)
        (6, '2x3')
    """

    height: int
    width: int

    @property
    def size(self) -> int:
        """Return the number of cells."""
        return self.height * self.width

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"

    def coordinates(self, device: Any = None) -> tuple[Tensor, Tensor]:
        """Return row and column of every cell: two `(N,)` int64 tensors."""
        import torch

        rows = torch.arange(self.height, device=device)
        columns = torch.arange(self.width, device=device)
        return rows.repeat_interleave(self.width), columns.repeat(self.height)

    def unit_coordinates(self) -> tuple[Tensor, Tensor]:
        """Return row and column of every cell, scaled to -1..1 (0 for a single cell): two `(N,)` float64 tensors."""
        rows, columns = self.coordinates()
        return _to_unit(rows.double(), self.height), _to_unit(columns.double(), self.width)


def _to_unit(positions: Tensor, count: int) -> Tensor:
    return positions * (2 / (count - 1)) - 1 if count > 1 else positions * 0


def as_grid(grid: GridLike, name: str = "grid") -> Grid:
    """Read a side length or a (height, width) pair.

    Examples:
        >>> as_grid(14), as_grid((7, 28))
        (Grid(height=14, width=14), Grid(height=7, width=28))

    Raises:
        LoopeError: unless both sides are whole numbers from 1 up.
    """
    sides = grid if isinstance(grid, Sequence) else (grid, grid)
    try:
        height, width = (operator.index(side) for side in sides)
        if isinstance(grid, bool):
            raise TypeError
    except Exception:  # whatever the value does when it is asked for a whole number
        raise LoopeError(
            f"`{name}` must be a whole number or a (height, width) pair of them, got {shown(grid)}; "
            f"use {name}=(14, 14)."
        ) from None
    if height < 1 or width < 1:
        raise LoopeError(f"`{name}` must be at least 1x1, got {shown(height)}x{shown(width)}; use positive sizes.")
    if height * width > MOST_CELLS:
        raise LoopeError(f"`{name}` must have at most {MOST_CELLS:,} cells, got {shown(height)}x{shown(width)}.")
    return Grid(height, width)


def as_size(value: Any, name: str, least: int = 1, most: int = MOST) -> int:
    """Read a whole number from `least` to `most`.

    Raises:
        LoopeError: for anything else.
    """
    try:
        size = operator.index(value)
    except Exception:  # whatever the value does when it is asked for a whole number
        size = least - 1
    if size < least or isinstance(value, bool):
        raise LoopeError(f"`{name}` must be a whole number from {least} up, got {shown(value)}.")
    if size > most:
        raise LoopeError(f"`{name}` must be at most {most:,}, got {shown(value)}.")
    return size


def as_positive(value: Any, name: str) -> float:
    """Read a positive, finite number.

    Raises:
        LoopeError: for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise LoopeError(f"`{name}` must be a positive number, got {shown(value)}.")
    return float(value)
