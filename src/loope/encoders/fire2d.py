"""FIRE in 2D: a perceptron of the distance on a logarithmic scale, relative to the farthest point of the image."""

import torch
from torch import Tensor, nn

from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.base import register_encoder
from loope.encoders.masks import ScoreMod, as_score_mod, axes
from loope.encoders.pair_bias import PairBias, Perceptrons, offset_index, offsets
from loope.positions import Positions, PositionsLike, as_positions

SMALLEST = 1e-6  # of c: at 0 the ratio of logarithms is 0 / 0


@register_encoder("fire2d")
class Fire2d(PairBias):
    """MLP(psi(distance) / psi(max(L, farthest))) with psi(x) = log(c x + 1); MLP, c and L are learned for each block.

    FIRE is defined for sequences, where a query at i sees keys up to a distance of i and the bias is
    MLP(psi(i - j) / psi(max(L, i))). The form in the plane is ours: the Euclidean distance, and the distance from the
    query to the farthest corner of its image. On a row of patches it is FIRE's, for queries in the second half and the
    keys before them.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        hidden: width of the hidden layer.
        scale: c at the start.
        threshold: L at the start, in cells; closer corners do not stretch the scale.
    """

    paper = "Li et al., 2024 (FIRE), in 1D"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        depth: int,
        hidden: int = 32,
        scale: float = 0.1,
        threshold: float = 16.0,
    ):
        super().__init__(dim, grid, heads, depth)
        self.scale = nn.Parameter(torch.full((self.depth,), as_positive(scale, "scale")))
        self.threshold = nn.Parameter(torch.full((self.depth,), as_positive(threshold, "threshold")))
        self.mlps = Perceptrons(self.depth, 1, as_size(hidden, "hidden"), self.heads)

    def score_mod(self, positions: PositionsLike, layer: int = 0, *, prefix: int = 0) -> ScoreMod:
        place = as_positions(positions)
        self._check_layer(layer, self.depth)
        points, sizes = (each.to(self.wide) for each in self._plane(place))
        row, column = axes(points, place)
        reach = self._psi(self._limit(_farthest(points, sizes), layer), layer).expand(place.rows, -1).contiguous()
        slope, start, weight = self.mlps.first[layer, 0], self.mlps.start[layer], self.mlps.last[layer]

        def bias(image: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            down, right = row[image, query] - row[image, key], column[image, query] - column[image, key]
            share = self._psi((down * down + right * right).sqrt(), layer) / reach[image, query]
            total = torch.zeros_like(share)
            for unit in range(len(slope)):
                total = total + weight[unit, head] * (slope[unit] * share + start[unit]).relu()
            return total

        return as_score_mod(bias, place, prefix)

    def no_weight_decay(self) -> set[str]:
        return {"scale", "threshold", "mlps.start"}

    def _dense(self, grid: Grid, layer: int) -> Tensor:
        # Few distances and farthest points differ: the perceptron is run once for each pair of them.
        distance, farthest = self.constant("_distances", grid), self.constant("_reaches", grid)
        table = self._mlp(distance, self._limit(farthest, layer)[:, None], layer).flatten(0, 1)
        return table.T.contiguous()[:, self.constant("_index", grid)]

    def _between(self, points: Tensor, sizes: Tensor, layer: int) -> Tensor:
        distance = (points[:, :, None] - points[:, None]).square().sum(-1).sqrt().to(self.wide)
        farthest = _farthest(points, sizes).to(self.wide)
        return self._mlp(distance, self._limit(farthest, layer)[..., None], layer).permute(0, 3, 1, 2)

    def _mlp(self, distance: Tensor, limit: Tensor, layer: int) -> Tensor:
        """Return the bias at these distances, `(..., heads)`."""
        share = self._psi(distance, layer) / self._psi(limit, layer)
        made: Tensor = self.mlps(share[..., None].to(self.dtype), layer)
        return made

    def _psi(self, distance: Tensor, layer: int) -> Tensor:
        return (distance * self.scale[layer].abs().clamp(min=SMALLEST).to(distance.dtype)).log1p()

    def _limit(self, farthest: Tensor, layer: int) -> Tensor:
        # At least one cell, as a grid of one cell has no farther one.
        return torch.maximum(farthest.clamp(min=1), self.threshold[layer].abs().to(farthest.dtype))

    def _distances(self, grid: Grid) -> Tensor:
        """Return the distances between cells, each once and sorted."""
        return _distinct(_squares(grid))[0].sqrt()

    def _reaches(self, grid: Grid) -> Tensor:
        """Return the distances from cells to their farthest corners, each once and sorted."""
        return _distinct(_reaches(grid))[0]

    def _index(self, grid: Grid) -> Tensor:
        """Return the number of each pair's farthest corner and distance among those, `(N, N)`."""
        values, which = _distinct(_squares(grid))
        return _distinct(_reaches(grid))[1][:, None] * len(values) + which[offset_index(grid)]


def _farthest(points: Tensor, sizes: Tensor) -> Tensor:
    """Return the distance from points to the farthest corner of their grids, `(1 or B, N)`."""
    return torch.maximum(points.abs(), (sizes - 1 - points).abs()).square().sum(-1).sqrt()


def _squares(grid: Grid) -> Tensor:
    """Return the squared distance at each of `offsets`: whole numbers, exactly."""
    return offsets(grid).square().sum(-1)


def _reaches(grid: Grid) -> Tensor:
    """Return the distance from each cell of a grid to its farthest corner, `(N,)`."""
    return _farthest(*Positions((grid,)).plane(torch.float64))[0]


def _distinct(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values, each once and sorted, and the number of each among them."""
    found: tuple[Tensor, Tensor] = torch.unique(values, return_inverse=True)
    return found
