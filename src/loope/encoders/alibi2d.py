"""ALiBi in 2D: attention decreases with distance, at a different rate per head."""

from collections.abc import Iterator

import torch
from torch import Tensor

from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.encoders.base import PositionalEncoder, register_encoder
from loope.encoders.masks import ScoreMod, as_score_mod, axes, mask
from loope.positions import Positions, PositionsLike, as_positions


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
    bias_per_layer = False

    def __init__(self, dim: int, grid: GridLike, heads: int):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")

    def bias(self, q: Tensor, positions: Positions, layer: int) -> Tensor:
        """Return the bias, `(1 or B, heads, N, N)`, the same for every block."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        if place.whole is not None:
            return self._dense(place.whole, 0, q.dtype).clone()  # a copy, since callers may modify it
        points = self._plane(place)[0]
        distance = (points[:, :, None] - points[:, None]).square().sum(-1).sqrt()
        return mask(torch.stack(list(self._penalties(distance, q.dtype)), dim=1), place)

    def bias_with_prefix(self, q: Tensor, positions: Positions, layer: int, prefix: int) -> Tensor:
        place = as_positions(positions)
        if place.whole is None:
            return super().bias_with_prefix(q, place, layer, prefix)
        self._check_tokens(q, place)
        return self._dense(place.whole, prefix, q.dtype)

    def score_mod(self, positions: PositionsLike, layer: int = 0, *, prefix: int = 0) -> ScoreMod:
        place = as_positions(positions)
        row, column = axes(self._plane(place)[0].to(self.wide), place)
        slopes = self._slopes(row)

        def bias(image: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            down, right = row[image, query] - row[image, key], column[image, query] - column[image, key]
            return -slopes[head] * (down * down + right * right).sqrt()

        return as_score_mod(bias, place, prefix)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the bias averaged over heads, `(N, N)`."""
        return self._dense(self.grid if grid is None else as_grid(grid), 0, self.wide)[0].mean(0)

    def _dense(self, grid: Grid, prefix: int, dtype: torch.dtype) -> Tensor:
        return self.constant("_bias", grid, prefix, dtype, dtype=dtype)

    def _bias(self, grid: Grid, prefix: int, dtype: torch.dtype) -> Tensor:
        """Return the bias of a whole grid behind prefix tokens, `(1, heads, P + N, P + N)`.

        The prefix and the dtype are part of the constant, so that a model needs one copy of it for all blocks.
        """
        # All distances occur between the first cell and another, so none of the larger tensors is made in float64.
        distance = Positions((grid,)).plane(torch.float64)[0].square().sum(-1).sqrt().view(*grid)
        row, column = ((torch.arange(length)[:, None] - torch.arange(length)).abs() for length in grid)
        size = prefix + grid.size
        made = torch.zeros(1, self.heads, size, size, dtype=dtype)
        for head, penalty in enumerate(self._penalties(distance, dtype)):
            made[0, head, prefix:, prefix:] = penalty[row[:, None, :, None], column[:, None]].view(grid.size, grid.size)
        return made

    def _penalties(self, distance: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
        """Yield the bias of each head."""
        for slope in self._slopes(distance):
            yield (-slope * distance).to(self.wide).to(dtype)

    def _slopes(self, like: Tensor) -> Tensor:
        heads = torch.arange(1, self.heads + 1, dtype=like.dtype, device=like.device)
        return 2.0 ** (-8 * heads / self.heads)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"
