"""Additive encoders that depend on positions alone."""

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.encoders.base import PositionalEncoder
from loope.positions import Positions, as_positions


class StaticTable(PositionalEncoder):
    """Base class of additive encoders that depend on positions alone.

    Subclasses are `continuous` and implement `_vectors` for any point, or implement `_table` for cells only.
    """

    reads_content = False

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        return self._static(self.refine_positions(images, as_positions(positions)))

    def _static(self, positions: Positions) -> Tensor:
        if positions.moved is not None and self.continuous:
            return self._vectors(*self._plane(positions)).to(self.dtype)
        return self.per_patch("_table", positions).to(self.dtype, copy=True)  # a copy, since callers may modify it

    def _table(self, grid: Grid) -> Tensor:
        """Return the vectors of all cells, `(N, D)` float64."""
        return self._vectors(*Positions((grid,)).plane(torch.float64))[0]

    def _vectors(self, points: Tensor, sizes: Tensor) -> Tensor:
        """Return the vectors at `points` `(1 or B, N, 2)` in grids of `sizes` (broadcastable): `(1 or B, N, D)`."""
        raise NotImplementedError
