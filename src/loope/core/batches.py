"""What a source of batches is: made by the data, read by the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from torch import Tensor

Batch: TypeAlias = tuple[Tensor, Tensor]  # inputs, targets


class Source(Protocol):
    """Batches of one split. The same (epoch, step) gives the same batch, whatever ran before: so resuming is exact.

    All randomness of the data (order, augmentation, mixup) is a function of (seed, epoch, sample or step), never of a
    worker's or a process's state. The batch size is that of the *global* batch: processes share it, so that results do
    not depend on their number. A training source drops the last incomplete batch; one for evaluation keeps it, and then
    shares may be uneven or empty: every sample exactly once.

    Attributes:
        samples: samples an epoch.
        steps: global batches an epoch.
    """

    samples: int
    steps: int

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """The batches of an epoch from step `start` on; `share` = (rank, processes): this process's slice of each."""
        ...
