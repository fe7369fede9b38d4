"""The format of responses: JSON, or a JSON header followed by float32 arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from loope.core import plain


def to_json(value: Any) -> bytes:
    """Return compact JSON."""
    return plain.to_json(value, indent=None).encode()


def pack(about: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> bytes:
    """Return the header's length (4 bytes, little endian), the header, and the float32 arrays.

    The header is JSON, padded with spaces so that the arrays start at a multiple of 4; its `arrays` lists their names
    and shapes in order.
    """
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    header = to_json({**about, "arrays": shapes})
    header += b" " * (-len(header) % 4)
    parts = [array.detach().to(torch.float32).contiguous().numpy().astype("<f4").tobytes() for array in arrays.values()]
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])
