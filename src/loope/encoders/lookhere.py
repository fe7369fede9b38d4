"""LookHere: each head looks in one direction, and its attention decreases with distance."""

import math

import torch
from torch import Tensor

from loope.core.errors import require, shown
from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.base import register_encoder
from loope.encoders.masks import HIDDEN, ScoreMod, as_score_mod, axes
from loope.encoders.pair_bias import PairBias, offset_index, offsets
from loope.positions import Positions, PositionsLike, as_positions

# Right, left, up, down, then the diagonals. Opposite directions are neighbours, so that pairs of heads are balanced.
DIRECTIONS = (0, 180, 90, 270, 45, 225, 135, 315)
HALVED = 45  # degrees: fields of view of this size are halves of those of 90 degrees, so that they meet on the axes
FIRST, LAST = 1.5, 0.5  # slopes of the first and the last block
UNDIRECTED = 4  # slopes of heads that are not directed
EDGE = 1e-6  # cells at the edge of a field of view are inside, whatever the rounding


@register_encoder("lookhere")
class LookHere(PairBias):
    """Minus slope times distance within a head's field of view, -inf outside; some heads see in all directions.

    The bias is -slope s_layer s_head distance, with the Euclidean distance in cells. s_layer decreases linearly from
    1.5 in the first block to 0.5 in the last; s_head is 1 for directed heads, and 1/2, 1/8, 1/32, 1/128 for the
    others. A patch always sees itself, and class and register tokens see and are seen by all.

    Of 12 heads, 8 are directed, each in another direction, and 4 are not. For other numbers the rule is ours: two in
    three are directed, in pairs that look in opposite directions. More than eight begin again, at half the slope. More
    than four that are not directed share the four slopes.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        fov: field of view of directed heads in degrees; the paper has 180, 90 and 45. Those of 45 degrees are halves
            of those of 90 degrees, to both sides of the axes.
        directed: number of directed heads; by default two in three.
        slope: slope for all blocks and heads.
    """

    paper = "Fuller et al., 2024"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        depth: int,
        fov: float = 90.0,
        directed: int | None = None,
        slope: float = 1.0,
    ):
        super().__init__(dim, grid, heads, depth)
        self.fov = as_positive(fov, "fov")
        require(self.fov <= 360, f"`fov` must be an angle up to 360 degrees, got {shown(fov)}.")
        count = 2 * (self.heads // 3) if directed is None else directed
        self.directed = as_size(count, "directed", least=0, most=self.heads)
        self.slope = as_positive(slope, "slope")

    def bias_with_prefix(self, q: Tensor, positions: Positions, layer: int, prefix: int) -> Tensor:
        place = as_positions(positions)
        if place.whole is None:
            return super().bias_with_prefix(q, place, layer, prefix)
        self._check_tokens(q, place)
        self._check_layer(layer, self.depth)
        return (self.constant("_views", place.whole, prefix) * self._layer_slope(layer)).to(q.dtype)[None]

    def score_mod(self, positions: PositionsLike, layer: int = 0, *, prefix: int = 0) -> ScoreMod:
        place = as_positions(positions)
        self._check_layer(layer, self.depth)
        row, column = axes(self._plane(place)[0].to(self.wide), place)
        heads = torch.tensor(self._heads(), dtype=row.dtype, device=row.device)
        slope, down, right, least = (axis.contiguous() for axis in heads.unbind(-1))
        factor = self._layer_slope(layer)

        def bias(image: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            y, x = row[image, key] - row[image, query], column[image, key] - column[image, query]
            distance = (y * y + x * x).sqrt()
            inside = y * down[head] + x * right[head] >= (least[head] - EDGE) * distance
            return torch.where(inside, -factor * slope[head] * distance, HIDDEN)

        return as_score_mod(bias, place, prefix)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return exp(bias) averaged over heads and blocks, `(N, N)`.

        It is the attention to a key relative to the patch itself, at equal scores; 0 where no head sees it.
        """
        place = self._place(grid).grids[0]
        return torch.stack([self._dense(place, layer).exp().mean(0) for layer in range(self.depth)]).mean(0)

    def _dense(self, grid: Grid, layer: int) -> Tensor:
        return self.constant("_views", grid, 0) * self._layer_slope(layer)

    def _between(self, points: Tensor, sizes: Tensor, layer: int) -> Tensor:
        views = self._seen(points[:, None] - points[:, :, None])
        return (views.transpose(0, 1) * self._layer_slope(layer)).to(self.wide)

    def _views(self, grid: Grid, prefix: int) -> Tensor:
        """Return the bias of a block with slope 1 behind prefix tokens, `(heads, P + N, P + N)`."""
        views = self._seen(-offsets(grid))[:, offset_index(grid)]  # offsets are query minus key
        made = torch.zeros(self.heads, prefix + grid.size, prefix + grid.size, dtype=views.dtype)
        made[:, prefix:, prefix:] = views
        return made

    def _seen(self, apart: Tensor) -> Tensor:
        """Return what each head makes of keys at these offsets `(..., 2)` from the query, `(heads, ...)`."""
        distance = apart.square().sum(-1).sqrt()
        views = []
        for slope, down, right, least in self._heads():
            inside = apart[..., 0] * down + apart[..., 1] * right >= (least - EDGE) * distance
            views.append(torch.where(inside, -slope * distance, HIDDEN))
        return torch.stack(views)

    def _heads(self) -> list[tuple[float, float, float, float]]:
        """Return slope, direction (down, right) and cosine of half the field of view of each head."""
        found = []
        half = math.cos(math.radians(self.fov / 2))
        turned = self.fov / 2 if self.fov == HALVED else 0.0
        for head in range(self.directed):
            turn, number = divmod(head, len(DIRECTIONS))
            angle = math.radians(DIRECTIONS[number] + turned)
            found.append((self.slope / 2**turn, -math.sin(angle), math.cos(angle), half))
        alike = -(-(self.heads - self.directed) // UNDIRECTED)  # heads with the same slope
        everywhere = [(self.slope / 2 / 4 ** (n // alike), 0.0, 1.0, -1.0) for n in range(self.heads - self.directed)]
        return [*found, *everywhere]

    def _layer_slope(self, layer: int) -> float:
        return FIRST + (LAST - FIRST) * layer / max(self.depth - 1, 1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, directed={self.directed}, fov={self.fov:g}"
