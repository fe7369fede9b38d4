"""ALiBi in 2D: attention decreases with distance, at a different rate per head."""

import torch
from torch import Tensor

from loope.core.grid import Grid, GridLike, as_size
from loope.encoders.base import PositionalEncoder, register_encoder


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

    def bias(self, q: Tensor, grid: Grid, layer: int) -> Tensor:
        """Return the bias, `(1, heads, N, N)`, the same for every block."""
        self._check_tokens(q, grid)
        return self.constant("_bias", grid).to(q.dtype, copy=True)  # a copy, since callers may modify it

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the bias averaged over heads, `(N, N)`."""
        return self.constant("_bias", self._place(grid))[0].mean(0)

    def _bias(self, grid: Grid) -> Tensor:
        cells = torch.stack(grid.coordinates(), dim=-1).double()
        slopes = 2.0 ** (-8 * torch.arange(1, self.heads + 1, dtype=torch.float64) / self.heads)
        distance = (cells[:, None] - cells[None]).square().sum(-1).sqrt()
        return (-slopes[:, None, None] * distance)[None]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"
