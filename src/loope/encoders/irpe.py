"""Image relative position encoding (iRPE): the product method, contextual on keys or as a plain bias."""

import math

import torch
from torch import Tensor, nn

from loope.core.errors import one_of, require_multiple
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.encoders.base import PositionalEncoder, register_encoder
from loope.encoders.masks import ScoreMod, as_score_mod, axes, mask
from loope.positions import Positions, PositionsLike, as_positions

ALPHA, BETA, GAMMA = 1.9, 3.8, 15.2
SIDE = 2 * int(BETA) + 1  # buckets along one axis
FAR = math.ceil(GAMMA)  # offsets beyond it are in the last bucket
MODES = ("contextual", "bias")


def piecewise_index(offset: Tensor) -> Tensor:
    """Map integer offsets to buckets -3..3: exact near the centre, then logarithmic, constant beyond GAMMA."""
    distance = offset.abs().double()
    far = ALPHA + torch.log(distance.clamp(min=ALPHA) / ALPHA) / math.log(GAMMA / ALPHA) * (BETA - ALPHA)
    bucket = torch.where(distance <= ALPHA, distance, far.round().clamp(max=int(BETA)))
    return offset.sign() * bucket.long()


@register_encoder("irpe")
class ImageRelativePosition(PositionalEncoder):
    """A learned bucket for each pair of row and column offsets, shared over heads, one table for each block.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        mode: "contextual" adds q . table[bucket] / sqrt(d), which depends on the query; "bias" a number per bucket.
    """

    paper = "Wu et al., 2021"

    def __init__(self, dim: int, grid: GridLike, heads: int, depth: int, mode: str = "contextual"):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")
        require_multiple("dim", self.dim, self.heads, f"{self.name!r} with {self.heads} heads")
        one_of("mode", mode, MODES)
        self.mode = mode
        self.reads_content = mode == "contextual"
        width = self.dim // self.heads if mode == "contextual" else 1
        self.tables = nn.Parameter(torch.zeros(as_size(depth, "depth"), SIDE * SIDE, width))

    def bias(self, q: Tensor, positions: Positions, layer: int) -> Tensor:
        """Return the bias: `(B, heads, N, N)` if contextual, else `(1 or B, heads, N, N)`."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        self._check_layer(layer, len(self.tables))
        whole = place.whole
        buckets = self.constant("_buckets", whole)[None] if whole else self._bucketed(self._plane(place)[0])
        table = self.tables[layer].to(q.dtype)
        if self.mode == "bias":
            return mask(table[:, 0][buckets][:, None].expand(-1, self.heads, -1, -1), place)
        scores = q @ table.T * q.shape[-1] ** -0.5  # (B, heads, N, buckets)
        return mask(scores.gather(-1, buckets[:, None].expand(*scores.shape[:2], -1, -1)), place)

    def score_mod(self, positions: PositionsLike, layer: int = 0, *, prefix: int = 0) -> ScoreMod:
        if self.mode != "bias":
            return super().score_mod(positions, layer, prefix=prefix)
        self._check_layer(layer, len(self.tables))
        place = as_positions(positions)
        row, column = axes(self._plane(place)[0], place)
        table = self.tables[layer][:, 0]
        buckets = piecewise_index(torch.arange(-FAR, FAR + 1, device=row.device)) + int(BETA)

        def bias(image: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            down, right = (
                buckets[(axis[image, query] - axis[image, key]).round().clamp(-FAR, FAR).long() + FAR]
                for axis in (row, column)
            )
            return table[down * SIDE + right]

        return as_score_mod(bias, place, prefix)

    def no_weight_decay(self) -> set[str]:
        return {"tables"}

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the bias averaged over blocks, `(N, N)`; in contextual mode, for a query of ones."""
        each = self.tables.sum(-1) * self.tables.shape[-1] ** -0.5  # (depth, buckets)
        kernel: Tensor = each.mean(0)[self.constant("_buckets", self.grid if grid is None else as_grid(grid))]
        return kernel

    def _buckets(self, grid: Grid) -> Tensor:
        return self._bucketed(Positions((grid,)).plane(torch.float64)[0])[0]

    @staticmethod
    def _bucketed(points: Tensor) -> Tensor:
        """Return the bucket of each pair of points, `(1 or B, N, N)`; offsets are rounded to whole cells."""
        # Query minus key, as in the original code, so that published tables can be used.
        offsets = (points[:, :, None] - points[:, None]).round().long()
        row, column = piecewise_index(offsets).unbind(-1)
        return (row + int(BETA)) * SIDE + column + int(BETA)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}, mode={self.mode!r}"
