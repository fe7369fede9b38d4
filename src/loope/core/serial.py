"""Small computations on the calling thread.

PyTorch splits an operation over threads from 32,768 elements on (indexing and matrix products earlier), and each
operation waits for the slowest thread. Small computations do not gain from it, and beside a process that keeps a core
busy they take many times as long. The number of threads is the caller's choice, so it is not changed: work is cut into
pieces that PyTorch does not split, and matrix products use NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

PIECE = 2**15 - 1  # elements: the most that PyTorch computes on the calling thread

# Sides of a block of a product. BLAS libraries multiply small matrices on the calling thread: OpenBLAS, which NumPy's
# wheels contain, where rows x columns x depth is at most 2^18.
SIDE, DEPTH = 48, 96


def in_pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Iterate over tensors of equal length, a few entries of the first dimension at a time; all at once off the CPU."""
    count = len(tensors[0])
    widest = max((tensor[0].numel() for tensor in tensors), default=1) if count else 1
    step = max(1, PIECE // max(1, widest)) if tensors[0].is_cpu else max(1, count)
    for start in range(0, count, step):
        yield tuple(tensor[start : start + step] for tensor in tensors)


def root(values: Tensor) -> Tensor:
    """Return the square root. PyTorch's own, like its rounding, uses threads from 2,048 elements on."""
    return torch.from_numpy(np.asarray(np.sqrt(values.numpy()))) if values.is_cpu else values.sqrt()


def rounded(values: Tensor) -> Tensor:
    """Round to the nearest integers, as floats; ties go to the even one."""
    return torch.from_numpy(np.asarray(np.rint(values.numpy()))) if values.is_cpu else values.round()


def gram(vectors: Tensor) -> Tensor:
    """Return all dot products of `(N, D)` float64 CPU vectors, `(N, N)` float64."""
    rows = vectors.numpy()
    columns = np.ascontiguousarray(rows.T)
    count, depth = rows.shape
    out = np.zeros((count, count))
    for top in range(0, count, SIDE):
        for left in range(top, count, SIDE):
            block = out[top : top + SIDE, left : left + SIDE]
            for deep in range(0, depth, DEPTH):
                block += rows[top : top + SIDE, deep : deep + DEPTH] @ columns[deep : deep + DEPTH, left : left + SIDE]
            out[left : left + SIDE, top : top + SIDE] = block.T
    return torch.from_numpy(out)
