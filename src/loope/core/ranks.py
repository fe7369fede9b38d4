"""Average ranks and Spearman's rank correlation, batched over leading dimensions."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loope.core.serial import rounded

STEP = 2.0**-40  # far above the rounding errors of float64 sums, far below meaningful differences


def average_ranks(values: Tensor) -> Tensor:
    """Return ranks from 1 along the last dimension; equal values share the mean of their ranks.

    Args:
        values: `(..., n)`.

    Returns:
        `(..., n)` float64.

    Examples:
        >>> average_ranks(torch.tensor([10, 30, 30, 20])).tolist()
        [1.0, 3.5, 3.5, 2.0]
    """
    ordered, order = values.sort(dim=-1)
    position = torch.arange(1, values.shape[-1] + 1, device=values.device).expand_as(ordered)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ends = torch.ones_like(starts)
    ends[..., :-1] = starts[..., 1:]
    # A run of equal values gets the mean of its first and last position.
    first = torch.where(starts, position, 0).cummax(dim=-1).values
    last = torch.where(ends, position, values.shape[-1] + 1).flip(-1).cummin(dim=-1).values.flip(-1)
    return torch.empty_like(ordered, dtype=torch.float64).scatter_(-1, order, (first + last).double() / 2)


def dense_ranks(values: Tensor) -> Tensor:
    """Return integer ranks from 1 along the last dimension, without gaps; equal values share one.

    Args:
        values: `(..., n)`.

    Returns:
        `(..., n)` int64.

    Examples:
        >>> dense_ranks(torch.tensor([10, 30, 30, 20])).tolist()
        [1, 3, 3, 2]
    """
    ordered, order = values.sort(dim=-1)
    starts = torch.ones_like(order)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return torch.empty_like(order).scatter_(-1, order, starts.cumsum(-1))


def round_off(values: Tensor, size: Tensor | float = 1.0) -> Tensor:
    """Round float64 `values` of about `size`, a power of two, to multiples of 2^-40 of it.

    Values that are equal in exact arithmetic differ in their last bits after a sum or a matrix product, differently on
    each processor; such differences must not be ranked.
    """
    return rounded(values / (size * STEP)) * (size * STEP)


def levels(values: Tensor) -> Tensor:
    """Round float64 `values` of about 1 to int64 multiples of 2^-40."""
    return rounded(values / STEP).long()


def spearman(x: Tensor, y: Tensor) -> Tensor:
    """Compute Spearman's rank correlation along the last dimension, with average ranks.

    Uses NumPy on the calling thread: PyTorch would split each step over threads, which is slower at these sizes.

    Args:
        x: `(..., n)` of any real dtype.
        y: `(..., n)`.

    Returns:
        `(...)` float64; NaN where one side is constant.
    """
    pairs = zip(*(values.detach().cpu().numpy().reshape(-1, values.shape[-1]) for values in (x, y)), strict=True)
    correlations = [_correlation(_centred_ranks(a), _centred_ranks(b)) for a, b in pairs]
    return torch.tensor(correlations, dtype=torch.float64, device=x.device).view(x.shape[:-1])


def _centred_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return average ranks minus their mean, `(n,)`."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2 - (len(values) + 1) / 2)[which.ravel()]


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    spread = math.sqrt(float((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread > 0 else math.nan
