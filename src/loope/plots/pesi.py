"""Plots for PESI: similarity from chosen centres, M_D by directions, offsets on images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid, GridLike, as_grid
from loope.plots.layout import backdrop, panels, slide

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from loope.orders import Order


def nine_centres(grid: Grid) -> list[tuple[int, int]]:
    """Return four corners, four edges and the centre, the rows of the paper's figure (Supp. B.5)."""
    bottom, right = grid.height - 1, grid.width - 1
    row, column = grid.height // 2, grid.width // 2
    corners = [(0, 0), (bottom, 0), (0, right), (bottom, right)]
    return [*corners, (0, column), (row, 0), (row, right), (bottom, column), (row, column)]


def mark_similarity(ax: Axes, matrix: Tensor, grid: Grid, centre: tuple[int, int]) -> None:
    """Draw one cell's row of an `(N, N)` similarity as a map, and mark the cell."""
    row, column = centre
    ax.imshow(matrix[row * grid.width + column].detach().cpu().view(grid).double().numpy(), cmap="magma")
    ax.plot(column, row, marker="o", markersize=4, markerfacecolor="none", markeredgecolor="cyan")


def similarity_maps(
    maps: Mapping[str, Tensor], grid: GridLike, centres: Sequence[tuple[int, int]] | None = None
) -> Figure:
    """Plot the similarity of all cells to chosen ones: one column per encoder, one row per centre.

    Args:
        maps: `(N, N)` similarity by the encoder's name, such as from `loope.encoder_similarity`. Each map has its own
            colour scale.
        grid: the cells.
        centres: (row, column) of each centre; by default four corners, four edges and the centre.
    """
    cells = as_grid(grid)
    chosen = nine_centres(cells) if centres is None else list(centres)
    require(
        all(0 <= row < cells.height and 0 <= column < cells.width for row, column in chosen),
        f"Centres must lie on the grid of {cells}, got {chosen}; use (row, column) from 0.",
    )
    figure, axes = panels(len(chosen) * len(maps), len(maps), side=1.1, title=0.1)
    for place, (row, column) in enumerate(chosen):
        for (name, matrix), ax in zip(maps.items(), axes[place * len(maps) :], strict=False):
            mark_similarity(ax, matrix, cells, (row, column))
            if place == 0:
                ax.set_title(name, fontsize=9)
        axes[place * len(maps)].set_ylabel(f"({row}, {column})", fontsize=9)
    return figure


def directions(measured: Mapping[str, Mapping[int, float]], ceiling: Mapping[int, float]) -> Figure:
    """Plot M_D against the number of directions, with its ceiling.

    Args:
        measured: M_D by the number of directions, by the encoder's name.
        ceiling: the largest M_D by the number of directions.
    """
    figure, (ax,) = panels(1, 1, side=4.2)
    ax.set_aspect("auto")
    top = max(ceiling.values()) + 0.08
    counts = sorted(ceiling)
    ax.fill_between(counts, [ceiling[n] for n in counts], top, color="0.9", linewidth=0)
    ax.plot(counts, [ceiling[n] for n in counts], color="black", linestyle="--", label="ceiling")
    for (name, scores), marker in zip(measured.items(), "osD^vP*X<>" * len(measured), strict=False):
        ax.plot(sorted(scores), [scores[n] for n in sorted(scores)], marker=marker, markersize=4, label=name)
    ax.axhline(1, color="0.6", linewidth=0.8)
    ax.annotate("no relation to distance", (counts[0], 1), xytext=(0, -11), textcoords="offset points", fontsize=8)
    ax.set_xscale("log", base=2)
    ax.set_xticks(counts, [str(n) for n in counts], fontsize=8)
    ax.minorticks_off()
    ax.tick_params(axis="y", labelsize=8)
    ax.set_yticks([tick / 5 for tick in range(11)])
    ax.set_ylim(min([0.9, *(min(scores.values()) for scores in measured.values())]) - 0.02, top)
    ax.set_xlabel("directions N", fontsize=9)
    ax.set_ylabel("M_D", fontsize=9)
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    return figure


def offset_arrows(image: Tensor, order: Order, moved: Tensor) -> Figure:
    """Plot how X_C moves each patch: arrows along the curve over the image, and a heat map.

    Args:
        image: `(3, H, W)` float in 0..1.
        order: the static order X_G.
        moved: `(N,)` offsets X_C in [-1, 1], row-major.
    """
    figure, (left, right) = panels(2, 2, side=3.2)
    grid, values = order.grid, moved.detach().cpu().double()
    backdrop(left, image, grid)
    start = order.path.double()
    step = (slide(order, values) - start).numpy()
    along = values[order.path[:, 0] * grid.width + order.path[:, 1]].numpy()
    left.quiver(
        *(start[:, 1].numpy(), start[:, 0].numpy(), step[:, 1], step[:, 0], along),
        angles="xy",
        scale_units="xy",
        scale=1,  # in cells
        cmap="coolwarm",
        clim=(-1, 1),
        width=0.009,
        edgecolor="black",
        linewidth=0.4,
    )
    left.set_title("patches moved along the curve", fontsize=10)
    heat = right.imshow(values.view(grid).numpy(), cmap="coolwarm", vmin=-1, vmax=1)
    right.set_title("X_C", fontsize=10)
    figure.colorbar(heat, ax=right, fraction=0.046)
    return figure
