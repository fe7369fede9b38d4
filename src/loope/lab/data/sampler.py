"""Choose the samples of each batch, as a function of the seed, the epoch and the step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import as_size
from loope.core.seeds import derive


class BatchSampler:
    """Sample indices of batches: shuffled complete batches for training, all samples in order for evaluation.

    Args:
        count: number of samples.
        batch_size: global batch size over all processes.
        train: shuffle every epoch and drop the last incomplete batch.
        seed: seed of the order.
        group: number of neighbouring samples that stay in one process.

    Attributes:
        samples: samples per epoch.
        steps: global batches per epoch.

    Examples:
        >>> [indices.tolist() for indices in BatchSampler(5, 2).batches(epoch=0)]
        [[0, 1], [2, 3], [4]]

    Raises:
        LoopeError: if there is not a single batch, or an argument is invalid.
    """

    def __init__(self, count: int, batch_size: int, *, train: bool = False, seed: int = 0, group: int = 1):
        self.count = count
        self.batch_size = as_size(batch_size, "batch_size")
        self.train = train
        self.group = group
        self.seed = as_size(seed, "seed", least=0)
        self.steps = count // self.batch_size if train else -(-count // self.batch_size)
        self.samples = self.steps * self.batch_size if train else count
        require(
            self.steps > 0,
            f"There must be at least one {'whole ' if train else ''}batch, got {count} samples and a `batch_size` of "
            f"{batch_size}; use a smaller batch or more data.",
        )

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Tensor]:
        """Yield this process's slice of each batch from step `start` on, `(b,)` int64 sample indices.

        Raises:
            LoopeError: for an invalid epoch, step or share, or if training batches cannot be shared evenly.
        """
        as_size(epoch, "epoch", least=0)
        rank, processes = share
        together = f", in groups of {self.group}" if self.group > 1 else ""
        require(
            0 <= as_size(start, "start", least=0) <= self.steps,
            f"`start` must be one of the {self.steps} steps of an epoch (or their number), got {start}.",
        )
        require(0 <= rank < processes, f"`share` must be (rank, processes) with 0 <= rank < processes, got {share}.")
        require(
            not self.train or self.batch_size % (self.group * processes) == 0,
            f"A training batch must be shared evenly{together}; got {self.batch_size} samples for {processes} "
            f"processes; use a multiple of {self.group * processes}.",
        )
        order = torch.arange(self.count)
        if self.train:
            random = torch.Generator().manual_seed(derive("order", self.seed, epoch))
            order = torch.randperm(self.count, generator=random)
        for step in range(start, self.steps):
            batch = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield batch[len(batch) * rank // processes : len(batch) * (rank + 1) // processes]
