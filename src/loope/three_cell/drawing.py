"""Plots of Three-Cell: samples with their answers, the four questions, and a comparison of samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.plots.layout import panels
from loope.three_cell.bits import COLOURS, TASKS, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = {"red": "#d62728", "green": "#2ca02c", "blue": "#1f77b4"}  # readable on white


def samples(cells: Tensor, labels: Tensor, grid: Grid, columns: int = 4) -> Figure:
    """Plot images with their answers in words.

    Args:
        cells: `(n, 3, 2)` int64: row and column of red, green, blue.
        labels: `(n, 6)`.
        grid: the grid of cells.
        columns: images per row.
    """
    figure, axes = panels(len(cells), columns, side=2.5)
    for ax, triple, label in zip(axes, cells.tolist(), labels.tolist(), strict=True):
        picture = torch.zeros(*grid, 3)
        for channel, (row, column) in enumerate(triple):
            picture[row, column, channel] = 1
        ax.imshow(picture.numpy())
        red, green, blue = ((column, row) for row, column in triple)
        for end in (green, blue):  # the segments RG and RB
            ax.plot(*zip(red, end, strict=True), color="white", linewidth=0.8, linestyle=":")
        for channel, (name, (x, y)) in enumerate(zip(COLOURS, (red, green, blue), strict=True)):
            ax.text(
                x, y, name[0].upper(), color="black" if name == "green" else "white", ha="center", va="center", size=6,
                bbox={"fc": [float(each == channel) for each in range(3)], "ec": "none", "pad": 1},  # over the lines
            )  # fmt: skip
        ax.plot((grid.width - 1) / 2, (grid.height - 1) / 2, marker="+", color="0.6", markersize=5)
        ax.set_xlabel("\n".join(in_words(label).values()), fontsize=7)
    return figure


def questions(triple: Tensor, label: Tensor, grid: Grid) -> Figure:
    """Plot one image, and how each of the four questions is answered on it.

    Args:
        triple: `(3, 2)` int64: row and column of red, green, blue.
        label: `(6,)`.
        grid: the grid of cells.
    """
    figure, axes = panels(1 + len(TASKS), 1 + len(TASKS), side=2.2, title=0.5)
    picture = torch.zeros(*grid, 3)
    for channel, (row, column) in enumerate(triple.tolist()):
        picture[row, column, channel] = 1
    axes[0].imshow(picture.numpy())
    axes[0].set_title("what the model sees", fontsize=9)
    cells = {name: (float(column), float(row)) for name, (row, column) in zip(COLOURS, triple.tolist(), strict=True)}
    words = in_words(label.tolist())
    for ax, task in zip(axes[1:], TASKS, strict=True):
        _board(ax, grid)
        _QUESTIONS[task](ax, cells, grid)
        for name, (x, y) in cells.items():
            ax.plot(x, y, marker="s", markersize=11, color=INK[name], markeredgecolor="white")
            ax.text(x, y, name[0].upper(), color="white", ha="center", va="center", size=7, weight="bold")
        ax.set_title(task.replace("_", " "), fontsize=9)
        ax.set_xlabel(words[task], fontsize=8)
    return figure


Cells = Mapping[str, tuple[float, float]]  # x and y of each colour


def _board(ax: Axes, grid: Grid) -> None:
    """Draw the lines between cells."""
    for x in range(grid.width + 1):
        ax.plot([x - 0.5] * 2, [-0.5, grid.height - 0.5], color="0.85", linewidth=0.6, zorder=0)
    for y in range(grid.height + 1):
        ax.plot([-0.5, grid.width - 0.5], [y - 0.5] * 2, color="0.85", linewidth=0.6, zorder=0)
    ax.set_xlim(-0.6, grid.width - 0.4)
    ax.set_ylim(grid.height - 0.4, -0.6)
    ax.set_aspect("equal")
    ax.spines[:].set_visible(False)


def _distance(ax: Axes, cells: Cells, grid: Grid) -> None:
    x, y = cells["red"]
    for end in ("green", "blue"):
        there = cells[end]
        length = ((there[0] - x) ** 2 + (there[1] - y) ** 2) ** 0.5
        ax.plot([x, there[0]], [y, there[1]], color=INK[end], linewidth=1.6)
        label = {"ha": "center", "va": "center", "size": 7, "bbox": {"fc": "white", "ec": "none", "pad": 0.8}}
        ax.text((x + there[0]) / 2, (y + there[1]) / 2, f"{length:.1f}", **label)  # type: ignore[arg-type]


def _orientation(ax: Axes, cells: Cells, grid: Grid) -> None:
    around = [cells[name] for name in COLOURS]
    ax.fill(*zip(*around, strict=True), color="0.93", zorder=0)
    for start, end in zip(around, [*around[1:], around[0]], strict=True):
        ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "shrinkA": 7, "shrinkB": 7, "color": "0.3"})


def _area(ax: Axes, cells: Cells, grid: Grid) -> None:
    x, y = cells["red"]
    bottom = grid.height - 0.5
    for end in ("green", "blue"):
        there = cells[end]
        ax.fill([x, there[0], there[0], x], [y, there[1], bottom, bottom], color=INK[end], alpha=0.25, linewidth=0)
        ax.plot([x, there[0]], [y, there[1]], color=INK[end], linewidth=1.6)


def _vector_sum(ax: Axes, cells: Cells, grid: Grid) -> None:
    """Draw the arrows from the centre one after the other, and the edge that their end is compared with."""
    middle = ((grid.width - 1) / 2, (grid.height - 1) / 2)
    right, bottom = grid.width - 0.5, grid.height - 0.5
    ax.plot([-0.5, right, right, -0.5, -0.5], [-0.5, -0.5, bottom, bottom, -0.5], color="0.3", linewidth=1)
    start, seen = middle, [(-0.5, -0.5), (right, bottom)]
    for name in COLOURS:
        end = (start[0] + cells[name][0] - middle[0], start[1] + cells[name][1] - middle[1])
        ax.annotate(
            "", end, start, arrowprops={"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, "color": INK[name]}, zorder=4
        )
        start = end
        seen.append(end)
    ax.plot(*middle, marker="+", color="0.3", markersize=7)
    ax.plot(*start, marker="*", color="black", markersize=8, zorder=5)
    sides = [(min(axis), max(axis)) for axis in zip(*seen, strict=True)]
    reach = max(high - low for low, high in sides) / 2 + 0.4  # a square panel, as large as the others
    (left, right), (top, bottom) = (((low + high) / 2 - reach, (low + high) / 2 + reach) for low, high in sides)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)


_QUESTIONS: dict[str, Callable[[Axes, Cells, Grid], None]] = {
    "distance": _distance,
    "orientation": _orientation,
    "area": _area,
    "vector_sum": _vector_sum,
}


def samplers(drawn: Mapping[str, Tensor], grid: Grid) -> Figure:
    """Plot the distribution of red and green cells and of the length of RG for each sampler.

    Args:
        drawn: `(n, 3, 2)` int64 cells by the sampler's name.
        grid: the grid of cells.
    """
    figure, axes = panels(2 * len(drawn) + 1, 2 * len(drawn) + 1, side=2.4)
    longest = ((grid.height - 1) ** 2 + (grid.width - 1) ** 2) ** 0.5
    for number, (name, cells) in enumerate(drawn.items()):
        for place in (0, 1):
            ax = axes[2 * number + place]
            index = cells[:, place, 0] * grid.width + cells[:, place, 1]
            share = index.bincount(minlength=grid.size).double() / len(cells) * grid.size
            heat = ax.imshow(share.view(grid).numpy(), cmap="coolwarm", vmin=0.6, vmax=1.4)
            ax.set_title(f"{name}: {COLOURS[place]}", fontsize=9)
        length = (cells[:, 1] - cells[:, 0]).double().norm(dim=1)
        axes[-1].hist(
            length.numpy(), bins=20, range=(0, longest), density=True, histtype="step", label=name, linewidth=1.5
        )
    figure.colorbar(heat, ax=axes[-2], fraction=0.046).ax.tick_params(labelsize=6)
    axes[-1].set_title("length of RG", fontsize=9)
    axes[-1].set_xticks([0, longest // 2, longest // 1])
    axes[-1].tick_params(labelsize=7)
    axes[-1].legend(fontsize=7)
    return figure
