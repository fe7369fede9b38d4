"""Plots of Three-Cell: samples with their answers, and a comparison of samplers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.plots.layout import panels
from loope.three_cell.bits import COLOURS, in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        for name, (x, y) in zip(COLOURS, (red, green, blue), strict=True):
            ax.text(
                x, y, name[0].upper(), color="black" if name == "green" else "white", ha="center", va="center", size=6
            )
        ax.plot((grid.width - 1) / 2, (grid.height - 1) / 2, marker="+", color="0.6", markersize=5)
        ax.set_xlabel("\n".join(in_words(label).values()), fontsize=7)
    return figure


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
