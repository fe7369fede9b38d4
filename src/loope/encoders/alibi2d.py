"""ALiBi in 2D: attention decreases with distance, at a different rate per head."""

import torch
from torch import Tensor

from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.encoders.base import PositionalEncoder, mask, register_encoder
from loope.positions import Positions, as_positions


@register_encoder("alibi2d")
class Alibi2d(PositionalEncoder):
    """Minus slope times the Euclidean distance of the cells; slopes 2^(-8/heads), 2^(-16/heads), ..., 2^-8.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        heads: attention heads.
    """

    paper = "Press et al., 2022; Fuller et al., 2023"
    reads_content = False

    def __init__(self, dim: int, grid: GridLike, heads: int):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")

    def bias(self, q: Tensor, positions: Positions, layer: int) -> Tensor:
        """Return the bias, `(1 or B, heads, N, N)`, the same for every block."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        if place.whole is not None:
            return self.constant("_bias", place.whole).to(q.dtype, copy=True)  # a copy, since callers may modify it
        return mask(self._penalty(self._plane(place)[0]).to(q.dtype), place)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the bias averaged over heads, `(N, N)`."""
        return self.constant("_bias", self.grid if grid is None else as_grid(grid))[0].mean(0)

    def _bias(self, grid: Grid) -> Tensor:
        return self._penalty(Positions((grid,)).plane(torch.float64)[0])

    def _penalty(self, points: Tensor) -> Tensor:
        heads = torch.arange(1, self.heads + 1, dtype=points.dtype, device=points.device)
        slopes = 2.0 ** (-8 * heads / self.heads)
        distance = (points[:, :, None] - points[:, None]).square().sum(-1).sqrt()
        return -slopes[:, None, None] * distance[:, None]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"
