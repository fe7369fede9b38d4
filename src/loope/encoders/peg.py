"""Conditional position encoding (CPE): a convolution that infers positions from its zero padding."""

import torch
from torch import Tensor, nn

from loope.core.grid import Grid, GridLike, as_size
from loope.encoders.base import PositionalEncoder, register_encoder


@register_encoder("peg")
class PositionalEncodingGenerator(PositionalEncoder):
    """A residual depthwise 3x3 convolution with zero padding on the token map, after one block.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        after: the block after which it acts; the first, as in the paper, is 0.
    """

    paper = "Chu et al., 2021"

    def __init__(self, dim: int, grid: GridLike, after: int = 0):
        super().__init__(dim, grid)
        self.after = as_size(after, "after", least=0)
        self.convolution = nn.Conv2d(self.dim, self.dim, 3, padding=1, groups=self.dim)

    def mixes_after(self, layer: int) -> bool:
        return layer == self.after

    def mix(self, tokens: Tensor, grid: Grid, layer: int) -> Tensor:
        """Return `(B, N, D)`: the tokens plus their convolution after block `after`, unchanged elsewhere."""
        if not self.mixes_after(layer):
            return tokens
        self._check_tokens(tokens, grid)
        maps = tokens.transpose(1, 2).reshape(-1, self.dim, *grid)
        mixed: Tensor = self.convolution(maps).flatten(2).transpose(1, 2)
        return tokens + mixed

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the cosine of the output for equal tokens (all ones), `(N, N)`; only the padding differs."""
        place = self._place(grid)
        tokens = torch.ones(1, place.size, self.dim, device=self._anchor.device, dtype=self.dtype)
        wide = torch.promote_types(self.dtype, torch.float32)
        vectors = nn.functional.normalize(self.mix(tokens, place, self.after)[0].to(wide), dim=-1)
        return vectors @ vectors.T
