"""Labelled noise images for smoke tests."""

from __future__ import annotations

import torch

from loope.lab.data.classification import Images, Memory


def synthetic_images(size: int, classes: int, side: int = 48) -> Images:
    """Create `size` noise images in `classes` classes, always the same."""
    noise = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (size, side, side, 3), dtype=torch.uint8, generator=noise)
    reader = Memory([f"noise {place}" for place in range(size)], pixels)
    labels = [place % classes for place in range(size)]
    return Images(reader, labels, ["train"] * size, [f"class {label}" for label in range(classes)])
