"""Batches of Three-Cell, made on the device: what travels there is six numbers an image, once.

No worker processes: drawing an image costs about as much as clearing its memory, less than a worker's copy of it.
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

DRAWN_AT_ONCE = 4096  # samples of a stream: enough to make the cost of a call small


class Batches:
    """A loader: each pass yields all samples of a data set as (images, labels) on the device.

    Attributes:
        epoch: how many passes were begun; it decides the order of a shuffled pass. Set it to go on where a run stopped.
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
        """`(B, 3, H, W)` float32 images in 0..1 and `(B, 6)` int64 labels."""
        order = torch.arange(len(self.data))
        if self.shuffle:
            order = torch.randperm(len(self.data), generator=self.data.recipe.generator("shuffle", self.epoch))
        self.epoch += 1
        order = order.to(self._cells.device)
        for number in range(len(self)):
            chosen = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.data.render(self._cells[chosen]), self._labels[chosen]


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Endless fresh samples. Each pass over it starts from the seed again; see `ThreeCell.stream`."""

    def __init__(self, recipe: Recipe, cell: int, rank: int):
        self.recipe = recipe
        self.grid = recipe.grid
        self.cell = cell
        self.rank = rank

    def cells(self) -> Iterator[Tensor]:
        """Endless `(4096, 3, 2)` int64 cells: the samples, before they are drawn."""
        worker = get_worker_info()  # each worker of a DataLoader draws samples of its own
        random = self.recipe.generator("stream", self.rank, worker.id if worker else 0)
        while True:
            yield self.recipe.draw(DRAWN_AT_ONCE, random)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless images, `(3, H, W)` float32 in 0..1, with labels, `(6,)` int64."""
        for cells in self.cells():
            for one, label in zip(cells, answer(cells, self.grid), strict=True):
                yield render(one[None], self.grid, self.cell)[0], label

    def batches(self, batch_size: int = 64, device: Any = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches made on `device`: `(B, 3, H, W)` float32 images and `(B, 6)` int64 labels.

        The samples are those of `iter(stream)`, in the same sequence, whatever the size of a batch.
        """
        batch_size = as_size(batch_size, "batch_size")
        waiting = torch.empty(0, 3, 2, dtype=torch.int64, device=device)
        for cells in self.cells():
            *full, waiting = torch.split(torch.cat((waiting, cells.to(device))), batch_size)
            if len(waiting) == batch_size:
                full, waiting = [*full, waiting], waiting[:0]
            for batch in full:
                yield render(batch, self.grid, self.cell), answer(batch, self.grid)
