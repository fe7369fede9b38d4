"""Seed dropout and drop path from the position in the run, so that no generator state has to be saved."""

import hashlib
import random

import numpy as np
import torch


def reseed(device: torch.device, *place: int) -> None:
    """Seed the generators of Python, NumPy and torch, including that of `device`, from a position in the run.

    Takes microseconds. Not `torch.manual_seed`, which queues a call, with its stack, for every unused GPU backend.
    """
    digest = hashlib.blake2b(repr(place).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "little")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
