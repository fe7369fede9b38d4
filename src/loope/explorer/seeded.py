"""Random draws of the explorer, one thread at a time: torch has one generator for all of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()


@contextmanager
def seeded() -> Iterator[None]:
    """Seed torch's generator with 0, and keep the explorer's other threads from drawing until the end.

    Use it, also as a decorator, around all that builds encoders or models, whether or not their weights are replaced.
    """
    with _LOCK:
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` seeds all devices, which takes a millisecond
        yield
