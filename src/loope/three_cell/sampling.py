"""Exact sampling of Three-Cell triples, vectorized.

The three cases (RG as long as RB, shorter, longer) have probability 1/3 each, and within a case all valid triples are
equally likely. A triple is valid if its cells are not collinear, which implies that no two coincide.

Random numbers are from PyTorch, the rest is NumPy on the calling thread: PyTorch would split such short steps over
threads that wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.three_cell.questions import compare_distances, signed_area

Cells: TypeAlias = NDArray[np.int64]
# Draws `(count, 3, 2)` int64 cells for a grid.
Sampler = Callable[[Grid, int, torch.Generator], Cells]
# Returns which of `(n, 3, 2)` cells to accept: `(n,)` bool.
Filter = Callable[[Cells], NDArray[np.bool_]]
# Most triples drawn at once; a filter that accepts none of them is assumed to accept nothing.
CHUNK = 200_000
# Computing the shapes of a 256x256 grid takes about a gigabyte.
MOST_CELLS = 65_536


class Triples(NamedTuple):
    """The number of valid triples of a grid in each case."""

    equal: int
    shorter: int
    longer: int


def count_triples(grid: Grid) -> Triples:
    """Count the valid (red, green, blue) triples of a grid.

    Examples:
        >>> count_triples(Grid(14, 14))
        Triples(equal=102432, shorter=3593088, longer=3593088)
    """
    equal = int(_equal_shapes(grid).ends[-1]) if min(grid) > 1 else 0
    # Of three collinear cells, two are the ends; between ends (a, b) apart lie gcd(a, b) - 1 cells.
    on_a_line = 0
    for down in range(grid.height):
        for across in range(-grid.width + 1, grid.width):
            if (down, across) > (0, 0):  # each pair of ends once
                placements = (grid.height - down) * (grid.width - abs(across))
                on_a_line += placements * (math.gcd(down, across) - 1)
    # Swapping green and blue turns every shorter triple into a longer one.
    unequal = grid.size * (grid.size - 1) * (grid.size - 2) - 6 * on_a_line - equal
    return Triples(equal, unequal // 2, unequal // 2)


def require_triples(grid: Grid) -> None:
    """Check that the grid has valid triples (2x2 or more) and is not too large."""
    require(
        grid.size <= MOST_CELLS,
        f"Three-Cell takes grids of up to {MOST_CELLS:,} cells, got {grid}, with {grid.size:,}; use a smaller one.",
    )
    require(
        min(grid) > 1,
        f"Three-Cell needs three cells that are not on one line, and a grid of {grid} has none; use 3x3 or more.",
    )


def sample_exact(grid: Grid, count: int, generator: torch.Generator, keep: Filter | None = None) -> Tensor:
    """Draw `(count, 3, 2)` int64 cells: each case with probability 1/3, uniform over its valid triples in `keep`.

    Raises:
        LoopeError: if the grid has no valid triples, or `keep` accepts none.
    """
    require_triples(grid)
    cells = np.empty((count, 3, 2), dtype=np.int64)
    case = below(3, count, generator)
    draws = (_draw_equal, _draw_shorter, _draw_longer)
    for number, draw in enumerate(draws):
        places = np.flatnonzero(case == number)
        cells[places] = collect(draw, grid, len(places), generator, keep)
    return torch.from_numpy(cells)


def collect(draw: Sampler, grid: Grid, count: int, generator: torch.Generator, keep: Filter | None = None) -> Cells:
    """Call `draw` until `keep` has accepted enough cells, `(count, 3, 2)`."""
    found = [np.empty((0, 3, 2), dtype=np.int64)]
    missing, tried = count, 0
    while missing > 0:
        share = (count - missing + 1) / (tried + 1) if tried else 1.0
        drawn = draw(grid, min(int(1.1 * missing / share) + 16, CHUNK), generator)
        tried += len(drawn)
        kept = drawn if keep is None else drawn[keep(drawn)]
        found.append(kept[:missing])
        missing -= len(found[-1])
        if missing == count and tried >= CHUNK:
            raise LoopeError(
                f"A grid of {grid} has too few triples to give each split some of its own; "
                "use a larger grid, larger fractions, or share_configurations=True."
            )
    return np.concatenate(found)


class _Shapes(NamedTuple):
    """Triples up to translation, `(S,)` int64 each, weighted by the number of placements in the grid."""

    green_row: Cells  # relative to red, as the next three
    green_column: Cells
    blue_row: Cells
    blue_column: Cells
    first_row: Cells  # the topmost possible row of red
    first_column: Cells
    columns: Cells  # number of possible columns of red
    ends: Cells  # running total of the placements


@lru_cache(maxsize=32)
def _equal_shapes(grid: Grid) -> _Shapes:
    """Return all shapes with RG as long as RB: some thousand at 14x14, which has seven million triples."""
    down = np.arange(-grid.height + 1, grid.height).repeat(2 * grid.width - 1)
    across = np.tile(np.arange(-grid.width + 1, grid.width), 2 * grid.height - 1)
    squared = down**2 + across**2
    # PyTorch's sort, not NumPy's: its order of ties determines the data that existing runs were trained on.
    order = torch.from_numpy(squared).argsort().numpy()
    down, across = down[order], across[order]
    # Steps of one length are adjacent; pair each with every step of its length.
    _, ring, sizes = np.unique(squared[order], return_inverse=True, return_counts=True)
    starts = sizes.cumsum() - sizes
    green = np.arange(len(squared)).repeat(sizes[ring])
    within = np.arange(len(green)) - (sizes[ring].cumsum() - sizes[ring])[green]
    blue = starts[ring][green] + within
    # Collinear steps of equal length are equal or opposite.
    apart = down[green] * across[blue] != across[green] * down[blue]
    green, blue = green[apart], blue[apart]

    first_row, rows = _room(down[green], down[blue], grid.height)
    first_column, columns = _room(across[green], across[blue], grid.width)
    fits = (rows > 0) & (columns > 0)
    ends = np.where(fits, rows * columns, 0).cumsum()
    every = (down[green], across[green], down[blue], across[blue], first_row, first_column, columns, ends)
    return _Shapes(*(values[fits] for values in every))


def _room(green: Cells, blue: Cells, side: int) -> tuple[Cells, Cells]:
    """Return the first position of red along an axis, and the number of positions, where both steps fit."""
    low = np.minimum(np.minimum(green, blue), 0)
    high = np.maximum(np.maximum(green, blue), 0)
    return -low, side - (high - low)


def _draw_equal(grid: Grid, count: int, generator: torch.Generator) -> Cells:
    """Draw `(count, 3, 2)` cells; one random number selects shape and placement."""
    shapes = _equal_shapes(grid)
    number = below(int(shapes.ends[-1]), count, generator)
    shape = np.searchsorted(shapes.ends, number, side="right")
    # Counted backwards from the shape's last placement.
    placement = shapes.ends[shape] - 1 - number
    row = shapes.first_row[shape] + placement // shapes.columns[shape]
    column = shapes.first_column[shape] + placement % shapes.columns[shape]
    green = row + shapes.green_row[shape], column + shapes.green_column[shape]
    blue = row + shapes.blue_row[shape], column + shapes.blue_column[shape]
    return np.stack((row, column, *green, *blue), axis=1).reshape(-1, 3, 2)


def _draw_unequal(grid: Grid, count: int, generator: torch.Generator, longer: bool) -> Cells:
    """Draw three random cells, and keep valid triples of unequal distance, about nine in ten: `(<= count, 3, 2)`."""
    index = below(grid.size, 3 * count, generator).reshape(3, count)
    cells = np.stack(np.divmod(index, grid.width), axis=1).transpose(2, 0, 1)
    difference = compare_distances(cells)
    valid = (signed_area(cells) != 0) & (difference != 0)
    # Swapping green and blue maps shorter triples to longer ones one to one, so none are discarded.
    swap = (difference > 0) != longer
    swapped: Cells = np.where(swap[:, None, None], cells[:, [0, 2, 1]], cells)
    return np.compress(valid, swapped, axis=0)


def _draw_shorter(grid: Grid, count: int, generator: torch.Generator) -> Cells:
    return _draw_unequal(grid, count, generator, longer=False)


def _draw_longer(grid: Grid, count: int, generator: torch.Generator) -> Cells:
    return _draw_unequal(grid, count, generator, longer=True)


def below(bound: int | Cells, count: int, generator: torch.Generator) -> Cells:
    """Draw `(count,)` int64 in 0..bound-1 from 63 random bits, so that the bias of the remainder is negligible."""
    bits = torch.empty(count, dtype=torch.int64, device=generator.device).random_(generator=generator)
    numbers: Cells = bits.numpy()
    return numbers % bound
