"""Drawing Three-Cell images: black, with one red, one green and one blue cell, made where they are needed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.core.tensors import as_dense


def render(cells: Tensor, grid: Grid, cell: int, device: Any = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Images of the cells.

    Args:
        cells: `(B, 3, 2)` int64: row and column of red, green, blue.
        grid: how many cells there are.
        cell: side of a cell in pixels.
        device: where the images are made; by default where `cells` are.
        dtype: float32 gives 0..1, uint8 gives 0..255.

    Returns:
        `(B, 3, h * cell, w * cell)`.

    Examples:
        >>> render(torch.tensor([[[0, 0], [0, 1], [1, 1]]]), Grid(2, 2), cell=1)[0, 1]  # the green channel
        tensor([[0., 1.],
                [0., 0.]])

    Raises:
        LoopeError: if `cells` has another shape or dtype, or (looked at on the CPU only) leaves the grid.
    """
    cells = as_dense(cells, "cells", "(B, 3, 2)")
    require(
        cells.dim() == 3 and cells.shape[1:] == (3, 2) and cells.dtype == torch.int64,
        f"`cells` must be (B, 3, 2) int64, (row, column) of red, green, blue; got {cells.dtype} {tuple(cells.shape)}.",
    )
    if cells.is_cpu and len(cells):  # elsewhere a look at the values would wait for the device
        inside = bool(((cells >= 0) & (cells < torch.tensor(grid))).all())
        require(inside, f"`cells` must lie in a grid of {grid}, got {cells.amin().item()} to {cells.amax().item()}.")
    cells = cells.to(device) if device is not None else cells
    images = torch.zeros(len(cells), 3, grid.height * cell, grid.width * cell, dtype=dtype, device=cells.device)
    # Red is the first channel, green the second, blue the third: cell k is full in channel k, and nothing is read back.
    blocks = images.view(len(cells), 3, grid.height, cell, grid.width, cell)
    image = torch.arange(len(cells), device=cells.device)[:, None]
    channel = torch.arange(3, device=cells.device)
    blocks[image, channel, cells[..., 0], :, cells[..., 1], :] = 255 if dtype == torch.uint8 else 1
    return images
