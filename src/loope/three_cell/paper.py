"""The paper's sampling procedure (supplementary A.2), for comparison with the exact one.

It draws lengths uniformly, and then steps of that length, so triples are not equally likely. Collinear cells are drawn
again, as the text says, but not the pseudo-code. Only `max_attempts` is our choice, since the paper leaves it open. The
vectorized loop follows the procedure exactly: all samples start together, so their attempts end together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.three_cell.questions import signed_area
from loope.three_cell.sampling import Cells, Filter, below, collect, require_triples

MAX_ATTEMPTS = 100


def sample_paper(grid: Grid, count: int, generator: torch.Generator, keep: Filter | None = None) -> Tensor:
    """Draw `(count, 3, 2)` int64 cells as published, not collinear and accepted by `keep`.

    Raises:
        LoopeError: if the grid has no valid triples, or `keep` accepts none.
    """
    require_triples(grid)
    return torch.from_numpy(collect(_draw, grid, count, generator, keep))


class _Steps(NamedTuple):
    """The dictionary D of the procedure: steps (a, b), grouped by length."""

    steps: Cells  # (S, 2) int64
    starts: Cells  # (K,) int64: index of the first step of each length, in ascending order
    sizes: Cells  # (K,) int64: number of steps of each length


@lru_cache(maxsize=32)
def _steps(grid: Grid) -> _Steps:
    """Return D[n] for n from 1 to the largest squared distance of the grid (338 at 14x14)."""
    limit = (grid.height - 1) ** 2 + (grid.width - 1) ** 2
    most = int(limit**0.5)
    axis = np.arange(-most, most + 1)
    steps = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    squared = (steps**2).sum(axis=1)
    order = squared.argsort(kind="stable")
    steps, squared = steps[order], squared[order]
    used = (squared > 0) & (squared <= limit)
    _, sizes = np.unique(squared[used], return_counts=True)
    return _Steps(steps[used], sizes.cumsum() - sizes, sizes)


def _draw(grid: Grid, count: int, generator: torch.Generator) -> Cells:
    """Draw `(count, 3, 2)` cells; each iteration is one attempt of all samples that are not valid yet."""
    table = _steps(grid)
    cells = np.empty((count, 3, 2), dtype=np.int64)
    open_ = np.arange(count)  # the samples without a valid triple
    mode = below(3, count, generator)  # 0 equal, 1 shorter, 2 longer; the paper counts from 1
    attempt = 0
    while len(open_):
        n = len(open_)
        if attempt % MAX_ATTEMPTS == 0:
            red = np.stack((below(grid.height, n, generator), below(grid.width, n, generator)), axis=1)
            common = below(len(table.sizes), n, generator)
        green, blue = _choose(table, mode, common, generator)
        triple = np.stack((red, red + table.steps[green], red + table.steps[blue]), axis=1)
        inside = ((triple >= 0) & (triple < np.array(grid))).all(axis=(1, 2))
        valid = inside & (signed_area(triple) != 0)  # coinciding cells are collinear too
        cells[open_[valid]] = triple[valid]
        open_, mode, red, common = (kept[~valid] for kept in (open_, mode, red, common))
        attempt += 1
    return cells


def _choose(table: _Steps, mode: Cells, common: Cells, generator: torch.Generator) -> tuple[Cells, Cells]:
    """Return indices of green's and blue's step, `(n,)` each: of the common length, or of two random lengths."""
    n = len(mode)
    equal = mode == 0
    one, other = below(len(table.sizes), n, generator), below(len(table.sizes), n, generator)
    low, high = np.minimum(one, other), np.maximum(one, other)
    green_length = np.where(equal, common, np.where(mode == 1, low, high))
    blue_length = np.where(equal, common, np.where(mode == 1, high, low))
    green = below(table.sizes[green_length], n, generator)
    # In the equal case two *distinct* steps: one of the others, counted past the first.
    blue = below(table.sizes[blue_length] - equal, n, generator)
    blue = blue + (equal & (blue >= green))
    return table.starts[green_length] + green, table.starts[blue_length] + blue
