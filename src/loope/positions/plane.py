"""Coordinates in units of the image."""

import torch
from torch import Tensor


def unit(points: Tensor, sizes: Tensor) -> Tensor:
    """Scale coordinates to -1..1 from the first to the last cell of each axis (0 for a single cell)."""
    steps = sizes - 1
    return torch.where(steps > 0, points * (2 / steps.clamp(min=1)) - 1, 0 * points)
