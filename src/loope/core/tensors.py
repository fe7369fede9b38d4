"""What may be computed with: real numbers in floating point that are there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from loope.core.errors import LoopeError, shown


def as_dense(value: Any, name: str, shape: str) -> Tensor:
    """Read a tensor that has values, each at its place in memory.

    Args:
        value: what came.
        name: what it is called in messages.
        shape: what it must look like, in words.

    Raises:
        LoopeError: for another type or layout, or a tensor on the device meta.
    """
    if not isinstance(value, Tensor):
        raise LoopeError(f"`{name}` must be a tensor of shape {shape}, got {shown(value)}; use torch.as_tensor.")
    if value.layout != torch.strided or value.is_quantized:
        raise LoopeError(
            f"`{name}` must be dense, got {value.layout}, {value.dtype}; use .to_dense() or .dequantize()."
        )
    if value.is_meta:
        raise LoopeError(f"`{name}` must hold values, got a tensor on the device meta; make it on another one.")
    return value


def as_real(value: Any, name: str, ranks: tuple[int, ...], shape: str) -> Tensor:
    """Read a floating-point tensor that has values, detached from its gradients.

    Args:
        value: what came.
        name: what it is called in messages.
        ranks: the numbers of dimensions that it may have.
        shape: what it must look like, in words.

    Raises:
        LoopeError: for anything else: another type, shape, layout or dtype, or a tensor on the device meta.
    """
    tensor = as_dense(value, name, shape)
    if tensor.dim() not in ranks:
        raise LoopeError(f"`{name}` must have shape {shape}, got {tuple(tensor.shape)}.")
    if tensor.is_complex():
        raise LoopeError(
            f"`{name}` must be real, got {tensor.dtype}; use torch.view_as_real(x).flatten(-2) for both its parts."
        )
    if not tensor.is_floating_point() or tensor.dtype.itemsize < 2:  # floats of eight bits are for storing only
        raise LoopeError(f"`{name}` must be floating point of 16 bits or more, got {tensor.dtype}; use .float().")
    return tensor.detach()
