"""Resample learned values from one grid to another, and read them between cells."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from loope.core.grid import Grid
from loope.positions import Positions


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


def interpolate(tables: Sequence[Tensor], positions: Positions) -> Tensor:
    """Read tables at fractional positions: bilinear, constant beyond the border.

    Args:
        tables: for each of `positions.kinds`, `(cells, C)`.
        positions: patches that are not all at cells.

    Returns:
        `(1 or B, N, C)`.
    """
    total = tables[0].new_zeros(())
    for weight, at in corners(positions):
        total = total + weight.to(tables[0].dtype) * at.pick(tables)
    return total


def corners(positions: Positions) -> Iterator[tuple[Tensor, Positions]]:
    """Yield the four cells around each patch with their bilinear weights, `(1 or B, N, 1)`."""
    points, sizes = positions.plane(torch.promote_types(positions.coordinates.dtype, torch.float32))
    low = points.floor()
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cell = low + points.new_tensor(corner)
        weight = (1 - (points - cell).abs()).prod(-1, keepdim=True)
        yield weight, positions._replace(moved=torch.minimum(cell.clamp(min=0), sizes - 1))
