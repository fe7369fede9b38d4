"""Biases and attention masks, added up."""

import torch
from torch import Tensor


def add_masks(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum of two masks, each additive or boolean (True is seen); None if there is none."""
    if a is None or b is None:
        return b if a is None else a
    dtype = b.dtype if a.dtype == torch.bool else a.dtype
    return _additive(a, dtype) + _additive(b, dtype)


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype if dtype.is_floating_point else torch.float32).masked_fill(
        ~mask, float("-inf")
    )
