"""Average ranks and Spearman's rank correlation, batched over leading dimensions."""

import torch
from torch import Tensor

STEP = 2.0**-40  # far above the rounding of float64 sums, far below what means anything


def average_ranks(values: Tensor) -> Tensor:
    """Ranks from 1 along the last dimension; equal values share the mean of their ranks.

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
    """Whole numbers from 1 along the last dimension that order as the values do; equal values share one.

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
    """Float64 `values` of about `size`, a power of two, as whole multiples of 2^-40 of it.

    What is equal on paper comes out of a sum or a matrix product with different last bits, and other ones on another
    processor; those must not be ranked.
    """
    return (values / (size * STEP)).round() * (size * STEP)


def levels(values: Tensor) -> Tensor:
    """Float64 `values` of about 1 as int64 multiples of 2^-40: rounded off, and ordered as before."""
    return (values / STEP).round().long()


def spearman(x: Tensor, y: Tensor) -> Tensor:
    """Spearman's rank correlation along the last dimension, with average ranks.

    Args:
        x: `(..., n)`.
        y: `(..., n)`.

    Returns:
        `(...)` float64; NaN where one side is constant.
    """
    a, b = (average_ranks(v) - (v.shape[-1] + 1) / 2 for v in (x, y))
    return (a * b).sum(-1) / (a.square().sum(-1) * b.square().sum(-1)).sqrt()
