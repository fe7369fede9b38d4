"""How numbers travel to the page: a line of JSON, then arrays as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from loope.core import plain


def to_json(value: Any) -> bytes:
    """Compact JSON."""
    return plain.to_json(value, indent=None).encode()


def pack(about: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> bytes:
    """The header's length (4 bytes, little endian), the header, and float32 arrays one after the other.

    The header is JSON, padded with spaces so that arrays start at a multiple of 4; its `arrays` are the names and
    shapes in their sequence.
    """
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    header = to_json({**about, "arrays": shapes})
    header += b" " * (-len(header) % 4)
    parts = [array.detach().to(torch.float32).contiguous().numpy().astype("<f4").tobytes() for array in arrays.values()]
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])
