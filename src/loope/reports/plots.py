"""Drawings of orders, similarity and offsets; each function returns a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from loope.core.errors import LoopeError
from loope.core.grid import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from loope.orders import Order

CURVE_COLOURS = "viridis"


def orders(chosen: Sequence[Order], columns: int = 3, scores: bool = True) -> Figure:
    """The curves side by side, from dark (start) to light (end), with their locality below."""
    figure, axes = panels(len(chosen), columns)
    for ax, order in zip(axes, chosen, strict=True):
        draw_curve(ax, order.path.double(), order.grid)
        ax.set_title(order.name, fontsize=10)
        if scores:
            score = order.locality()
            ax.set_xlabel(f"neighbours {score.neighbour_distance:.2f} apart, {score.kept:.0%} kept", fontsize=7)
    return figure


def similarity(maps: Mapping[str, Tensor], grid: Grid, centre: tuple[int, int], columns: int = 4) -> Figure:
    """How alike every cell is to one, for several encoders.

    Args:
        maps: `(N, N)` similarity by the encoder's name; each map has its own colour scale, from its least to its most.
        grid: the cells.
        centre: row and column of the cell that the others are compared to.
        columns: maps in a row.
    """
    figure, axes = panels(len(maps), columns)
    row, column = centre
    for ax, (name, matrix) in zip(axes, maps.items(), strict=True):
        ax.imshow(matrix[row * grid.width + column].detach().view(grid).float().numpy(), cmap="magma")
        ax.plot(column, row, marker="o", markersize=4, markerfacecolor="none", markeredgecolor="cyan")
        ax.set_title(name, fontsize=10)
    return figure


def offsets(image: Tensor, order: Order, moved: Tensor) -> Figure:
    """An image under its curve, and how far each patch was moved along it.

    Args:
        image: `(3, H, W)` float in 0..1.
        order: the static order X_G.
        moved: `(N,)` offsets X_C in [-1, 1], row-major.
    """
    figure, axes = panels(3, 3, side=3.2)
    extent = (-0.5, order.grid.width - 0.5, order.grid.height - 0.5, -0.5)
    axes[0].imshow(image.permute(1, 2, 0).numpy(), extent=extent)
    axes[0].set_title("image and static order", fontsize=10)
    draw_curve(axes[0], order.path.double(), order.grid)
    axes[1].imshow(image.permute(1, 2, 0).numpy(), extent=extent, alpha=0.35)
    axes[1].set_title("cells slid along the curve by X_C", fontsize=10)
    draw_curve(axes[1], slide(order, moved), order.grid, dots=True)
    heat = axes[2].imshow(moved.view(order.grid).numpy(), cmap="coolwarm", vmin=-1, vmax=1)
    axes[2].set_title("X_C", fontsize=10)
    figure.colorbar(heat, ax=axes[2], fraction=0.046)
    return figure


def slide(order: Order, moved: Tensor) -> Tensor:
    """`(N, 2)`: where on the drawn curve each position comes to lie after its offset, by linear interpolation."""
    path = order.path.double()
    rank = order.index.flatten().argsort()
    place = (torch.arange(len(path)) + moved.double()[rank]).clamp(0, len(path) - 1)
    low = place.floor().long().clamp(max=max(len(path) - 2, 0))
    high = (low + 1).clamp(max=len(path) - 1)
    return path[low] + (place - low)[:, None] * (path[high] - path[low])


def draw_curve(ax: Axes, points: Tensor, grid: Grid, dots: bool = False) -> None:
    """Draw `(N, 2)` points (row, column) as a line whose colour tells how far along it is."""
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


def png(figure: Figure, dpi: int = 130) -> bytes:
    """The figure as a PNG file's bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def panels(count: int, columns: int, side: float = 1.9) -> tuple[Figure, list[Axes]]:
    """A figure with `count` square panels without ticks. No pyplot: nothing global, no window, any thread."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise LoopeError("Drawings need matplotlib: pip install 'loope[plots]'.") from None
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(side * columns, (side + 0.35) * rows), layout="constrained")
    axes: list[Any] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]
