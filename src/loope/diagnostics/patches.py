"""Cut images into patches and put them together, and tokens after the first blocks."""

from __future__ import annotations

from torch import Tensor

from loope.core.grid import Grid
from loope.diagnostics.tokens import Watched

EARLY = 2  # compare tokens after so many blocks: later, rounding grows


def early(watched: Watched, images: Tensor) -> Tensor:
    """Return the patch tokens after the first blocks, `(B, N, D)`."""
    layers = watched.run(images).layers
    return layers[min(EARLY, len(layers) - 1)]


def cut(images: Tensor, grid: Grid) -> Tensor:
    """Cut images `(B, C, H, W)` into patches `(B, N, C, side, side)`."""
    high, wide = images.shape[-2] // grid.height, images.shape[-1] // grid.width
    parts = images.reshape(*images.shape[:2], grid.height, high, grid.width, wide)
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def joined(patches: Tensor, grid: Grid) -> Tensor:
    """Put patches `(B, N, C, side, side)` together."""
    rows = patches.reshape(len(patches), *grid, *patches.shape[2:])
    return rows.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def with_patch(images: Tensor, grid: Grid, number: int) -> Tensor:
    """Return images with other pixels in one patch."""
    changed = images.clone()
    row, column = divmod(number, grid.width)
    high, wide = images.shape[-2] // grid.height, images.shape[-1] // grid.width
    changed[..., row * high : (row + 1) * high, column * wide : (column + 1) * wide] *= -3
    return changed


def changes(before: Tensor, after: Tensor, grid: Grid) -> Tensor:
    """Return how much each token of one image changed, `(h, w)`."""
    return (after - before)[0].square().sum(-1).view(*grid)
