"""Labelled noise images for smoke tests."""

from __future__ import annotations

import torch

from loope.lab.data.images.collection import Images
from loope.lab.data.images.readers import Memory


def synthetic_images(size: int, classes: int, side: int = 48) -> Images:
    """Create `size` noise images in `classes` classes, always the same."""
    count = side * side * 3
    pixels = torch.randint(0, 256, (size * count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    reader = Memory(
        [f"noise {place}" for place in range(size)], pixels, range(0, size * count, count), [(side, side)] * size
    )
    labels = [place % classes for place in range(size)]
    return Images(reader, labels, ["train"] * size, [f"class {label}" for label in range(classes)])
