"""Load whole batches in worker processes, for every kind of data."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

Loaded = TypeVar("Loaded")


class BatchRequest(NamedTuple):
    """Everything that determines a batch, besides the seed."""

    epoch: int
    step: int
    indices: Sequence[int]


def load_batches(batches: Dataset[Loaded], requests: Iterable[BatchRequest], workers: int) -> DataLoader[Loaded]:
    """Load a batch for each request, in order.

    Args:
        batches: returns the whole batch for a `BatchRequest`; it must not keep state.
        requests: the batches to load.
        workers: processes that load ahead; 0 loads in this process.
    """
    return DataLoader(
        batches,
        batch_size=None,  # the data set returns whole batches
        sampler=requests,
        num_workers=workers,
        generator=torch.Generator(),  # otherwise the loader would draw from torch's global generator
        worker_init_fn=ignore_interrupts,
        pin_memory=torch.cuda.is_available(),
    )


def ignore_interrupts(worker: int) -> None:
    """Ignore Ctrl-C in a worker process: the trainer handles it, and may need batches to finish its step."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
