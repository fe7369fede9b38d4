"""Helpers for plots: panels without ticks, curves, PNG files."""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.core.packages import require_packages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from loope.orders import Order

CURVE_COLOURS = "viridis"


def slide(order: Order, moved: Tensor) -> Tensor:
    """Return the point on the curve of each position after its offset, by linear interpolation: `(N, 2)`."""
    path = order.path.double()
    rank = order.index.flatten().argsort()
    place = (torch.arange(len(path)) + moved.double()[rank]).clamp(0, len(path) - 1)
    low = place.floor().long().clamp(max=max(len(path) - 2, 0))
    high = (low + 1).clamp(max=len(path) - 1)
    return path[low] + (place - low)[:, None] * (path[high] - path[low])


def draw_curve(ax: Axes, points: Tensor, grid: Grid, dots: bool = False) -> None:
    """Draw `(N, 2)` points (row, column) as a line coloured from start to end."""
    from matplotlib.collections import LineCollection

    xy = points.flip(1).numpy()
    lines = [xy[i : i + 2] for i in range(len(xy) - 1)]
    along = list(range(len(lines)))
    ax.add_collection(LineCollection(lines, array=along, cmap=CURVE_COLOURS, capstyle="round"))
    if dots or len(points) == 1:
        ax.scatter(xy[:, 0], xy[:, 1], c=list(range(len(points))), cmap=CURVE_COLOURS, s=6, zorder=3)
    ax.set_xlim(-0.6, grid.width - 0.4)
    ax.set_ylim(grid.height - 0.4, -0.6)
    ax.set_aspect("equal")


def backdrop(ax: Axes, image: Tensor, grid: Grid, alpha: float = 0.55) -> None:
    """Draw a `(3, H, W)` image, faded, in cell coordinates."""
    extent = (-0.5, grid.width - 0.5, grid.height - 0.5, -0.5)
    ax.imshow(image.detach().cpu().permute(1, 2, 0).float().numpy(), extent=extent, alpha=alpha)


def png(figure: Figure, dpi: int = 130) -> bytes:
    """Return the figure as PNG bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def panels(count: int, columns: int, side: float = 1.9, title: float = 0.35) -> tuple[Figure, list[Axes]]:
    """Create a figure with `count` square panels without ticks, `side` inches wide, with `title` inches above each.

    Does not use pyplot: no global state, no window, thread-safe.
    """
    require_packages("A drawing", "plots", "matplotlib")
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(side * columns, (side + title) * rows), layout="constrained")
    axes: list[Any] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def plain_axes(across: str, up: str) -> tuple[Figure, Axes]:
    """Create a figure with one pair of labelled axes, without a box."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.add_subplot()
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax
