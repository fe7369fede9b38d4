"""Biases that the positions of two patches determine: one formula for every kind of positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.encoders.base import PositionalEncoder
from loope.encoders.masks import mask
from loope.positions import Positions, as_positions


class PairBias(PositionalEncoder, ABC):
    """Base class of biases that depend on positions alone and differ between blocks.

    Subclasses implement `_dense` for all cells of a grid, and `_between` for any points.
    """

    reads_content = False

    def __init__(self, dim: int, grid: GridLike, heads: int, depth: int):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")
        self.depth = as_size(depth, "depth")

    def bias(self, q: Tensor, positions: Positions, layer: int) -> Tensor:
        """Return the bias of a block, `(1 or B, heads, N, N)`."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        self._check_layer(layer, self.depth)
        if place.moved is not None:
            made = self._between(*self._plane(place), layer)
        elif place.whole is not None:
            made = self._dense(place.whole, layer)[None]
        else:  # made for whole grids first, so that a patch gets exactly what it would get among all patches
            made = pick_pairs([self._dense(grid, layer) for grid in place.kinds], place)
        return mask(made.to(q.dtype), place)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the bias averaged over heads and blocks, `(N, N)`."""
        place = self.grid if grid is None else as_grid(grid)
        return torch.stack([self._dense(place, layer).to(self.wide).mean(0) for layer in range(self.depth)]).mean(0)

    @abstractmethod
    def _dense(self, grid: Grid, layer: int) -> Tensor:
        """Return the bias between all cells of a grid, `(heads, N, N)`, queries first."""

    @abstractmethod
    def _between(self, points: Tensor, sizes: Tensor, layer: int) -> Tensor:
        """Return the bias between points, `(1 or B, heads, N, N)`.

        Args:
            points: row and column of each patch, `(1 or B, N, 2)`.
            sizes: the size of each patch's grid, broadcastable to `points`.
            layer: the block.
        """

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"


class Perceptrons(nn.Module):
    """A small perceptron for each block: linear, ReLU, linear; the last without a bias, which softmax would ignore.

    Args:
        depth: blocks of the model.
        inputs: width of the input.
        hidden: width of the hidden layer.
        outputs: width of the output.
    """

    def __init__(self, depth: int, inputs: int, hidden: int, outputs: int):
        super().__init__()
        # One parameter for all blocks: that of a last block of which only the class token is used has no gradient.
        self.first = nn.Parameter(torch.empty(depth, inputs, hidden))
        self.start = nn.Parameter(torch.empty(depth, hidden))
        self.last = nn.Parameter(torch.empty(depth, hidden, outputs))
        for parameter, width in ((self.first, inputs), (self.start, inputs), (self.last, hidden)):
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)  # as `nn.Linear` does

    def forward(self, features: Tensor, layer: int) -> Tensor:
        """Return the output of a block's perceptron, `(..., inputs)` to `(..., outputs)`."""
        return (features @ self.first[layer] + self.start[layer]).relu() @ self.last[layer]


def offsets(grid: Grid) -> Tensor:
    """Return all offsets between two cells, `((2h - 1)(2w - 1), 2)` float64, from (1 - h, 1 - w) row by row."""
    axes = (torch.arange(1 - length, length, dtype=torch.float64) for length in grid)
    return torch.cartesian_prod(*axes).view(-1, 2)


def offset_index(grid: Grid) -> Tensor:
    """Return the row of `offsets` for query minus key, `(N, N)` int64."""
    row, column = grid.coordinates()
    down = row[:, None] - row + grid.height - 1
    right = column[:, None] - column + grid.width - 1
    return down * (2 * grid.width - 1) + right


def pick_pairs(dense: Sequence[Tensor], positions: Positions) -> Tensor:
    """Look up the bias between the cells of patches.

    Args:
        dense: for each of `positions.kinds`, the bias between all of its cells, `(heads, cells, cells)`.
        positions: patches at cells. Pairs of different images get any value.

    Returns:
        `(1 or B, heads, N, N)`.
    """
    cells = positions.nearest().to(dense[0].device)
    kinds = [positions.kinds.index(grid) for grid in positions.grids]
    starts = [0, *accumulate(each.shape[-1] ** 2 for each in dense)]
    image = positions.image().to(cells.device)
    first = torch.tensor([starts[kind] for kind in kinds], device=cells.device)[image]
    count = torch.tensor([dense[kind].shape[-1] for kind in kinds], device=cells.device)[image]
    keys = torch.minimum(cells[:, None], (count - 1)[:, :, None])
    index = (first + cells * count)[:, :, None] + keys
    flat = torch.cat([each.flatten(1) for each in dense], dim=1)
    return flat[:, index].transpose(0, 1)
