"""Resample learned values from one grid to another."""

from torch import Tensor
from torch.nn import functional as F

from loope.core.grid import Grid


def resample(values: Tensor, old: Grid, new: Grid) -> Tensor:
    """Resample values on a grid by bicubic interpolation with antialiasing, computed in float32.

    Args:
        values: `(..., N, C)`, row-major on `old`.
        old: the grid of the values.
        new: the new grid. Grids are compared by height and width, not by number of cells.

    Returns:
        `(..., M, C)`, row-major on `new`; `values` itself if the grids are equal.
    """
    if old == new:
        return values
    *lead, _, channels = values.shape
    image = values.float().reshape(-1, *old, channels).permute(0, 3, 1, 2)
    image = F.interpolate(image, size=tuple(new), mode="bicubic", antialias=True)
    return image.permute(0, 2, 3, 1).reshape(*lead, new.size, channels).to(values.dtype)
