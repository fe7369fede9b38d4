"""Log-spaced continuous position bias (log-CPB): a perceptron of the offset between two patches."""

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.encoders.base import register_encoder
from loope.encoders.masks import ScoreMod, as_score_mod, axes
from loope.encoders.pair_bias import PairBias, Perceptrons, offset_index, offsets
from loope.positions import PositionsLike, as_positions

SHARPNESS = 8.0  # offsets run from -8 to 8 before the logarithm
LARGEST = 16.0  # the bias runs over an interval of this length


@register_encoder("rel_pos_mlp")
class RelPosMlp(PairBias):
    """16 sigmoid(MLP(sign log2(1 + 8 abs(offset)) / 3)) - 8, offsets from -1 to 1 over the grid; an MLP for each block.

    Swin v2 has no - 8. Between patches it changes nothing, since softmax ignores constants; with it, class and register
    tokens, whose bias is 0, are not shut out at the start.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        hidden: width of the hidden layer.
        base: (height, width) of the grid over which offsets run from -1 to 1, Swin v2's pretrained window size: on
            larger grids they go beyond. None means the image's own grid, whatever its size.
    """

    paper = "Liu et al., 2022 (Swin v2)"

    def __init__(
        self, dim: int, grid: GridLike, heads: int, depth: int, hidden: int = 512, base: GridLike | None = None
    ):
        super().__init__(dim, grid, heads, depth)
        self.base = None if base is None else as_grid(base, "base")
        self.mlps = Perceptrons(self.depth, 2, as_size(hidden, "hidden"), self.heads)

    def score_mod(self, positions: PositionsLike, layer: int = 0, *, prefix: int = 0) -> ScoreMod:
        place = as_positions(positions)
        self._check_layer(layer, self.depth)
        require(
            place.moved is None,
            f"{self.name!r} has a `score_mod` for patches at cells only; between cells use `bias`.",
        )
        kinds = [place.kinds.index(grid) for grid in place.grids]
        tables = [self._table(grid, layer) for grid in place.kinds]
        table = torch.cat(tables, dim=1)
        starts = torch.tensor([0, *(each.shape[1] for each in tables)]).cumsum(0)
        points, sizes = self._plane(place)
        row, column = axes(points.long(), place)
        height, width = axes(sizes.expand_as(points).long(), place)
        first = starts[kinds].to(row.device)[place.image().to(row.device)].expand_as(row).contiguous()

        def bias(image: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            # Keys of other images, which are hidden, may be further away than any of this one.
            down = (row[image, query] - row[image, key]).clamp(1 - height[image, query], height[image, query] - 1)
            right = (column[image, query] - column[image, key]).clamp(1 - width[image, query], width[image, query] - 1)
            line = down + height[image, query] - 1
            index = line * (2 * width[image, query] - 1) + right + width[image, query] - 1
            return table[head, first[image, query] + index]

        return as_score_mod(bias, place, prefix)

    def no_weight_decay(self) -> set[str]:
        return {name for name, _ in self.named_parameters()}

    def _dense(self, grid: Grid, layer: int) -> Tensor:
        return self._table(grid, layer)[:, self.constant("_index", grid)]

    def _between(self, points: Tensor, sizes: Tensor, layer: int) -> Tensor:
        apart = points[:, :, None] - points[:, None]
        spans = sizes if self.base is None else sizes.new_tensor(self.base).view(1, 1, 2)
        features = _spaced(apart, spans[:, :, None]).to(self.wide)
        return self._squashed(features, layer).permute(0, 3, 1, 2)

    def _table(self, grid: Grid, layer: int) -> Tensor:
        """Return the bias of each of `offsets`, `(heads, offsets)`."""
        return self._squashed(self.constant("_features", grid), layer).T.contiguous()

    def _squashed(self, features: Tensor, layer: int) -> Tensor:
        squashed: Tensor = self.mlps(features.to(self.dtype), layer).sigmoid()
        return LARGEST * squashed - LARGEST / 2

    def _features(self, grid: Grid) -> Tensor:
        return _spaced(offsets(grid), torch.tensor(self.base or grid, dtype=torch.float64))

    def _index(self, grid: Grid) -> Tensor:
        return offset_index(grid)


def _spaced(apart: Tensor, sizes: Tensor) -> Tensor:
    """Return sign log2(1 + 8 |offset|) / log2(8) of offsets in cells, over grids of these sizes."""
    share = apart / (sizes - 1).clamp(min=1)
    return share.sign() * (1 + SHARPNESS * share.abs()).log2() / 3
