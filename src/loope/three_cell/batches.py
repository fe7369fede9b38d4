"""Batches of Three-Cell rendered on the device, from six numbers per image.

No worker processes: rendering an image costs about as much as clearing its memory, less than copying it from a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from loope.core.grid import as_size
from loope.three_cell.questions import answer
from loope.three_cell.recipe import Recipe
from loope.three_cell.rendering import render

if TYPE_CHECKING:
    from loope.three_cell.dataset import ThreeCell

DRAWN_AT_ONCE = 4096  # samples of a stream, enough to amortize a call


class Batches:
    """A loader that yields all samples of a dataset as (images, labels) on the device.

    Attributes:
        epoch: number of passes started, which determines the shuffled order. Set it to resume a run.
    """

    def __init__(self, data: ThreeCell, batch_size: int, device: Any, shuffle: bool, drop_last: bool):
        self.data = data
        self.batch_size = as_size(batch_size, "batch_size")
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.epoch = 0
        self._cells = data.cells.to(device)
        self._labels = data.labels.to(device)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.data), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `(B, 3, H, W)` float32 images in 0..1 and `(B, 6)` int64 labels."""
        order = torch.arange(len(self.data))
        if self.shuffle:
            order = torch.randperm(len(self.data), generator=self.data.recipe.generator("shuffle", self.epoch))
        self.epoch += 1
        order = order.to(self._cells.device)
        for number in range(len(self)):
            chosen = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.data.render(self._cells[chosen]), self._labels[chosen]


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """An endless stream of new samples; each iteration restarts from the seed. See `ThreeCell.stream`."""

    def __init__(self, recipe: Recipe, cell: int, rank: int):
        self.recipe = recipe
        self.grid = recipe.grid
        self.cell = cell
        self.rank = rank

    def cells(self) -> Iterator[Tensor]:
        """Yield `(4096, 3, 2)` int64 cells endlessly: the samples before rendering."""
        worker = get_worker_info()  # each worker of a DataLoader draws different samples
        random = self.recipe.generator("stream", self.rank, worker.id if worker else 0)
        while True:
            yield self.recipe.draw(DRAWN_AT_ONCE, random)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images, `(3, H, W)` float32 in 0..1, and labels, `(6,)` int64, endlessly."""
        for cells in self.cells():
            for one, label in zip(cells, answer(cells, self.grid), strict=True):
                yield render(one[None], self.grid, self.cell)[0], label

    def batches(self, batch_size: int = 64, device: Any = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches on `device` endlessly: `(B, 3, H, W)` float32 images and `(B, 6)` int64 labels.

        The samples are those of `iter(stream)` in the same order, for any batch size.
        """
        batch_size = as_size(batch_size, "batch_size")
        waiting = torch.empty(0, 3, 2, dtype=torch.int64, device=device)
        for cells in self.cells():
            *full, waiting = torch.split(torch.cat((waiting, cells.to(device))), batch_size)
            if len(waiting) == batch_size:
                full, waiting = [*full, waiting], waiting[:0]
            for batch in full:
                yield render(batch, self.grid, self.cell), answer(batch, self.grid)
