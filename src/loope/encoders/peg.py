"""Conditional position encoding (CPE): a convolution that infers positions from its zero padding."""

import torch
from torch import Tensor, nn

from loope.core.grid import GridLike, as_size
from loope.encoders.base import PositionalEncoder, register_encoder
from loope.positions import Positions, as_positions


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

    def mix(self, tokens: Tensor, positions: Positions, layer: int) -> Tensor:
        """Return `(B, N, D)`: the tokens plus their convolution after block `after`, unchanged elsewhere.

        Cells without a patch count as zero, as those beyond the border do; patches between cells act at the nearest.
        """
        if not self.mixes_after(layer):
            return tokens
        place = as_positions(positions)
        self._check_tokens(tokens, place)
        if place.whole is not None:
            maps = tokens.transpose(1, 2).reshape(-1, self.dim, *place.whole)
            mixed: Tensor = self.convolution(maps).flatten(2).transpose(1, 2)
            return tokens + mixed
        # Lay the tokens out on one canvas per image, and read the result where they were.
        image, row, column = _canvas(place, tokens)
        height, width = (max(sides) for sides in zip(*place.grids, strict=True))
        count = len(place.grids) if place.sequence is not None else len(tokens)
        shown = tokens if place.valid is None else tokens.masked_fill(~place.valid[..., None], 0)
        maps = tokens.new_zeros(count, height, width, self.dim).index_put((image, row, column), shown, accumulate=True)
        convolved: Tensor = self.convolution(maps.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return tokens + convolved[image, row, column]

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the cosine of the output for equal tokens (all ones), `(N, N)`; only the padding differs."""
        place = self._place(grid)
        tokens = torch.ones(1, place.length, self.dim, device=self._anchor.device, dtype=self.dtype)
        vectors = nn.functional.normalize(self.mix(tokens, place, self.after)[0].to(self.wide), dim=-1)
        return vectors @ vectors.T


def _canvas(positions: Positions, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return image, row and column of each token, `(B, N)` each."""
    cells = positions.nearest()
    width = torch.tensor([grid.width for grid in positions.grids], device=cells.device)[positions.image()]
    images = torch.arange(len(tokens), device=cells.device)[:, None]
    image = images if positions.sequence is None else positions.sequence
    shape = tokens.shape[:2]
    return image.expand(shape), (cells // width).expand(shape), (cells % width).expand(shape)
