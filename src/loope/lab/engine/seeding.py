"""Randomness of a step (dropout, drop path) as a function of where the step is: no generator's past matters."""

import hashlib
import random

import numpy as np
import torch


def reseed(device: torch.device, *place: int) -> None:
    """Seed Python's, numpy's and torch's generators, that of `device` included, by numbers that name a place in a run.

    Some microseconds. Not `torch.manual_seed`: it would queue a call, with its stack, for every GPU library not in use.
    """
    digest = hashlib.blake2b(repr(place).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "little")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
