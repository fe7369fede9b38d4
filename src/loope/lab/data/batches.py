"""Interfaces of data sources: batches that depend only on their position in the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor

Batch: TypeAlias = tuple[Tensor, Tensor]  # inputs, targets


class Source(Protocol):
    """Batches of one split. The same (epoch, step) gives the same batch, so that resuming is exact.

    All randomness (order, augmentation, mixing) is derived from the seed, the epoch, and the sample or step, never from
    the state of a worker or process. A training source drops the last incomplete batch. An evaluation source keeps it
    and yields every sample exactly once, so its shares may be uneven or empty.

    Attributes:
        samples: samples per epoch.
        steps: global batches per epoch.
    """

    samples: int
    steps: int

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield the batches of an epoch from step `start` on.

        Args:
            epoch: epoch, counted from 0.
            start: first step; earlier ones are skipped at no cost.
            share: (rank, processes), which selects this process's slice of each global batch.
        """
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A source with a fingerprint of its data; a run does not resume with other data."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return a short hash for each aspect of the data, the same on every machine.

        The aspect "times" may differ for copied data, which only gives a warning.
        """
        ...
