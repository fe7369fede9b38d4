"""Checks of positions and of what they are made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require, shown
from loope.core.grid import Grid, GridLike, as_grid

if TYPE_CHECKING:
    from loope.positions.positions import Positions


def as_grids(sizes: Sequence[GridLike]) -> tuple[Grid, ...]:
    """Return the grids of a list of sizes."""
    require(
        isinstance(sizes, Sequence) and len(sizes) > 0,
        f"Expected a list with the (height, width) of each image's grid, got {shown(sizes)}.",
    )
    return tuple(as_grid(size) for size in sizes)


def is_list(grids: GridLike | Sequence[GridLike]) -> bool:
    """Return whether these are several grids, not one."""
    return (
        isinstance(grids, Sequence)
        and not isinstance(grids, Grid)
        and any(isinstance(each, Sequence) for each in grids)
    )


def as_numbers(name: str, *values: Any) -> list[float]:
    """Return finite numbers as floats."""
    require(
        all(isinstance(each, int | float) and math.isfinite(each) for each in values),
        f"`{name}` must be finite, got {', '.join(shown(each) for each in values)}.",
    )
    return [float(each) for each in values]


def as_index(index: Any, device: torch.device | None) -> Tensor:
    """Return numbers of patches as `(1 or B, M)` int64."""
    try:
        chosen = torch.as_tensor(index, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise LoopeError(f"`index` must be a tensor or a list of whole numbers, got {shown(index)}.") from None
    require(
        chosen.dim() in (1, 2) and not chosen.is_floating_point() and chosen.dtype != torch.bool,
        f"`index` must hold whole numbers, (M,) or (B, M), got {chosen.dtype} of shape {tuple(chosen.shape)}.",
    )
    return (chosen[None] if chosen.dim() == 1 else chosen).long()


def check_shapes(positions: Positions) -> None:
    """Check that the parts of `positions` fit together.

    Raises:
        LoopeError: naming the part that does not.
    """
    parts = dict(zip(positions._fields[1:], positions[1:], strict=True))
    for name, each in parts.items():
        require(each is None or isinstance(each, Tensor), f"`{name}` must be a tensor, got {shown(each)}.")
    rows, length = positions.rows, positions.length
    for name, each in parts.items():
        require(
            each is None or (each.dim() >= 2 and each.shape[0] in (1, rows) and each.shape[1] == length),
            f"`{name}` must have a row for all or for each of the {rows} images and {length} patches, got shape "
            f"{None if each is None else tuple(each.shape)}.",
        )
    valid, sequence, grids = positions.valid, positions.sequence, positions.grids
    require(
        valid is None or valid.dtype == torch.bool,
        f"`valid` must be boolean, got {None if valid is None else valid.dtype}.",
    )
    if sequence is None:
        require(
            len(grids) in (1, rows),
            f"Expected the grid of all images or one for each of the {rows} rows, got {len(grids)}; give `sequence` if "
            "a row holds several images.",
        )
        return
    require(
        not sequence.is_floating_point()
        and sequence.dtype != torch.bool
        and bool((sequence >= 0).all() and (sequence < len(grids)).all()),
        f"`sequence` must hold the number of each patch's image, from 0 to {len(grids) - 1}.",
    )


def check_places(positions: Positions) -> None:
    """Check that coordinates are finite and in their image's grid, except for padding.

    Raises:
        LoopeError: naming a patch that is not.
    """
    points, sizes = positions.plane(torch.float64)
    used = torch.ones_like(points[..., 0], dtype=torch.bool) if positions.valid is None else positions.valid
    shape = (positions.rows, positions.length)
    require(bool(points.expand(*shape, 2)[used.expand(shape)].isfinite().all()), "`coordinates` must be finite.")
    inside = ((points >= -0.5) & (points <= sizes - 0.5)).all(-1) | ~used
    if not bool(inside.all()):
        row, column = points.expand(*inside.shape, 2)[~inside][0].tolist()
        raise LoopeError(
            f"`coordinates` must be in the grid, from -0.5 to size - 0.5, got row {row:g}, column {column:g} in a "
            f"grid of {' or '.join(sorted({str(grid) for grid in positions.grids})[:3])}; use `shift` or `scale` to "
            "move patches beyond it."
        )
