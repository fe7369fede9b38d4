"""What training asks of data: batches that depend on where in the run they are, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor

Batch: TypeAlias = tuple[Tensor, Tensor]  # inputs, targets


class Source(Protocol):
    """Batches of one split. The same (epoch, step) gives the same batch, whatever ran before: so resuming is exact.

    All randomness (order, augmentation, mixing) follows from the seed, the epoch, and the sample or step; never from
    the state of a worker or process. A training source drops the last incomplete batch; an evaluation source keeps it
    and gives every sample exactly once, so that shares of it may be uneven or empty.

    Attributes:
        samples: samples an epoch.
        steps: global batches an epoch.
    """

    samples: int
    steps: int

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """The batches of an epoch from step `start` on.

        Args:
            epoch: from 0 up.
            start: the first step wanted; what comes before it costs nothing.
            share: (rank, processes): this process's slice of each global batch.
        """
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A source that can say what its data are; a run that goes on with others is then refused."""

    def fingerprint(self) -> Mapping[str, str]:
        """Something short for each aspect of the data: the same for the same data, on every machine.

        An aspect "times" may differ where data were copied: that gives a warning.
        """
        ...
