"""Plots of orders, similarity and offsets; each function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from loope.core.grid import GridLike, as_grid
from loope.plots.layout import backdrop, draw_curve, panels, png, slide
from loope.plots.pesi import directions, mark_similarity, offset_arrows, similarity_maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from loope.orders import Order

__all__ = [
    "directions",
    "draw_curve",
    "offset_arrows",
    "offsets",
    "orders",
    "png",
    "similarity",
    "similarity_maps",
    "slide",
]


def orders(chosen: Sequence[Order], columns: int = 3, scores: bool = True, image: Tensor | None = None) -> Figure:
    """Plot patch orders side by side, from dark (start) to light (end).

    Args:
        chosen: the orders.
        columns: panels per row.
        scores: write their locality below.
        image: `(3, H, W)` float in 0..1, drawn faded behind each.
    """
    figure, axes = panels(len(chosen), columns)
    for ax, order in zip(axes, chosen, strict=True):
        if image is not None:
            backdrop(ax, image, order.grid)
        draw_curve(ax, order.path.double(), order.grid)
        ax.set_title(order.name, fontsize=10)
        if scores:
            score = order.locality()
            ax.set_xlabel(f"neighbours {score.neighbour_distance:.2f} apart, {score.kept:.0%} kept", fontsize=7)
    return figure


def similarity(maps: Mapping[str, Tensor], grid: GridLike, centre: tuple[int, int], columns: int = 4) -> Figure:
    """Plot the similarity of all cells to one cell, for several encoders.

    Args:
        maps: `(N, N)` similarity by the encoder's name; each map has its own colour scale.
        grid: the cells.
        centre: row and column of the reference cell.
        columns: maps per row.
    """
    figure, axes = panels(len(maps), columns)
    cells = as_grid(grid)
    for ax, (name, matrix) in zip(axes, maps.items(), strict=True):
        mark_similarity(ax, matrix, cells, centre)
        ax.set_title(name, fontsize=10)
    return figure


def offsets(image: Tensor, order: Order, moved: Tensor) -> Figure:
    """Plot an image with its curve, and how far each patch moves along it.

    Args:
        image: `(3, H, W)` float in 0..1.
        order: the static order X_G.
        moved: `(N,)` offsets X_C in [-1, 1], row-major.
    """
    figure, axes = panels(3, 3, side=3.2)
    backdrop(axes[0], image, order.grid, 1)
    axes[0].set_title("image and static order", fontsize=10)
    draw_curve(axes[0], order.path.double(), order.grid)
    backdrop(axes[1], image, order.grid, 0.35)
    axes[1].set_title("cells slid along the curve by X_C", fontsize=10)
    draw_curve(axes[1], slide(order, moved), order.grid, dots=True)
    heat = axes[2].imshow(moved.view(order.grid).numpy(), cmap="coolwarm", vmin=-1, vmax=1)
    axes[2].set_title("X_C", fontsize=10)
    figure.colorbar(heat, ax=axes[2], fraction=0.046)
    return figure
