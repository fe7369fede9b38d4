"""Limits on untrusted input to the explorer, the command line and `loope.load`.

Small files can describe large things; beyond these limits they are refused.
"""

from __future__ import annotations

from loope.core.errors import require
from loope.core.grid import Grid

MOST_PIXELS = 50_000_000  # of an image
MOST_TRAINING_PIXELS = 89_478_485  # of an image of a data set: what Pillow decodes without a warning
MOST_SCORES = 2**30  # scores (pixels times classes) at once: 4 GB in float32
MOST_CELLS_SHOWN = 1024  # 32x32: a similarity matrix of 4 MB, as the explorer sends it
MOST_CELLS_COMPARED = 4096  # 64x64: a similarity matrix of 128 MB in float64
MOST_CELLS_ORDERED = 2**20  # 1024x1024: a patch order and its locality in a second
MOST_DIM = 8192  # of tokens
MOST_SAMPLES = 10_000_000  # of Three-Cell, whose coordinates are in memory
MOST_PATCHES = 65_536  # of a model that is loaded from a file
MOST_LETTERS = 200  # in a class name


def require_cells(grid: Grid, most: int, what: str) -> None:
    """Raise `LoopeError` for a grid with more than `most` cells."""
    require(grid.size <= most, f"{what} takes grids of up to {most:,} cells, got {grid}, with {grid.size:,}.")


def require_comparable(grid: Grid) -> None:
    """Raise `LoopeError` for a grid whose matrix of similarities is too large to hold."""
    require(
        grid.size <= MOST_CELLS_COMPARED,
        f"The similarity of all pairs of cells is computed for up to {MOST_CELLS_COMPARED:,} cells, got {grid}, with "
        f"{grid.size:,}; use a smaller grid.",
    )
