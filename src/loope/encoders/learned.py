"""The encoders without positions, and with a learned vector per position."""

import torch
from torch import Tensor, nn

from loope.core.grid import Grid, GridLike, as_positive
from loope.encoders.base import NO_POSITIONS, PositionalEncoder, register_encoder
from loope.encoders.resample import interpolate, resample
from loope.positions import Positions, as_positions


@register_encoder("none")
class NoPosition(PositionalEncoder):
    """Nothing: what a model knows without positions."""

    paper = "baseline"
    at_other_sizes = "-"
    reads_content = False
    imitates = False

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        return (NO_POSITIONS,)

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        return self._anchor.new_zeros(1, as_positions(positions).length, self.dim)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return `(N, N)` ones: all positions are the same."""
        size = self._place(grid).length
        return self._anchor.new_ones(size, size)


@register_encoder("learned")
class Learned(PositionalEncoder):
    """A trained vector for each position; other grids get it resampled.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the table.
        std: standard deviation of the initial values.
        fuzzy: while training, each patch reads the table up to this many cells away along each axis (ViTAR has 0.5).
    """

    paper = "Dosovitskiy et al., 2021"
    reads_content = False
    continuous = True

    def __init__(self, dim: int, grid: GridLike, std: float = 0.02, fuzzy: float = 0.0):
        super().__init__(dim, grid)
        self._augment_by(fuzzy=fuzzy)
        self.table = nn.Parameter(torch.empty(1, self.grid.size, self.dim))
        nn.init.trunc_normal_(self.table, std=as_positive(std, "std"))

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        """Return the vectors, `(1 or B, N, D)`: resampled on other grids, interpolated between cells."""
        return self._static(self.refine_positions(images, as_positions(positions)))

    def _static(self, positions: Positions) -> Tensor:
        if positions.whole is not None:
            return resample(self.table, self.grid, positions.whole).clone()  # a copy, since callers may modify it
        tables = [resample(self.table, self.grid, grid)[0] for grid in positions.kinds]
        if positions.moved is None:
            return positions.pick(tables)
        return interpolate(tables, positions)

    @torch.no_grad()
    def fit(self, table: Tensor) -> float:
        """Copy the table."""
        self.table.copy_(table[None])
        return 1.0

    def no_weight_decay(self) -> set[str]:
        return {"table"}

    def _resample(self, grid: Grid) -> None:
        self.table = nn.Parameter(resample(self.table, self.grid, grid), self.table.requires_grad)
