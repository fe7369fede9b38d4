"""Put patches together to images, for models that are given patches."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.positions import Positions


def join_patches(
    patches: Tensor, positions: Positions, side: int, channels: int, channels_last: bool = True
) -> Tensor | list[Tensor] | None:
    """Put patches `(B, N, ...)` together to images `(B, C, H, W)`, or a list with one `(C, H, W)` for each grid.

    Missing patches are 0. None if patches have another size than the model's.
    """
    flat = patches.flatten(2)
    if flat.shape[-1] != channels * side * side:
        return None
    require(
        flat.shape[1] == positions.length and positions.rows in (1, len(flat)),
        f"Expected {positions.length} patches, as the given positions have, got patches of {tuple(patches.shape)}.",
    )
    lead = flat.shape[:2]
    if channels_last:
        flat = flat.reshape(*lead, side, side, channels).permute(0, 1, 4, 2, 3)
    else:
        flat = flat.reshape(*lead, channels, side, side)
    if positions.whole is not None:
        return _joined(flat, positions.whole)
    single = len(positions.grids) == 1 and positions.sequence is None
    images = _scattered(flat, positions, positions.grids * (len(flat) if single else 1))
    return torch.stack(images) if single else images


def _scattered(patches: Tensor, positions: Positions, grids: tuple[Grid, ...]) -> list[Tensor]:
    """Put patches `(B, N, C, side, side)` in their places: an image `(C, H, W)` for each grid."""
    lead, device = patches.shape[:2], patches.device
    starts = [0, *accumulate(grid.size for grid in grids)]
    rows = torch.arange(len(patches), device=device)[:, None]
    image = (rows if positions.sequence is None else positions.sequence).expand(lead)
    places = torch.tensor(starts, device=device)[image] + positions.nearest()
    if positions.valid is not None:
        places = torch.where(positions.valid, places, starts[-1])  # padding goes to a cell of its own
    canvas = patches.new_zeros(starts[-1] + 1, *patches.shape[2:]).index_put((places,), patches)
    parts = torch.split(canvas[:-1], [grid.size for grid in grids])
    return [_joined(part[None], grid)[0] for part, grid in zip(parts, grids, strict=True)]


def _joined(patches: Tensor, grid: Grid) -> Tensor:
    """Join all patches of a grid, `(B, N, C, side, side)`, to images `(B, C, H, W)`."""
    rows = patches.reshape(len(patches), *grid, *patches.shape[2:])
    return rows.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
