"""Figures of training runs: learning curves, scores and trends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from loope.plots.layout import plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
# Possible offsets of a label from its dot.
SIDES = tuple((x, y) for y in (4, -10, 14, -20, 24, -30) for x in (5, -5, 16, -16))


def learning_curves(curves: Mapping[str, Sequence[Points]], across: str, up: str, floor: float | None = None) -> Figure:
    """Draw a line per seed, coloured by name; the legend is sorted by final value.

    Args:
        curves: name -> (x, y) points of each seed.
        across: label of the x axis.
        up: label of the y axis.
        floor: level to mark, such as the score of a constant answer.
    """
    figure, ax = plain_axes(across, up)
    colours = [f"C{number}" for number in range(10)]
    styles = ("-", "--", ":")
    for number, (name, seeds) in enumerate(curves.items()):
        for place, points in enumerate(seeds):
            x, y = zip(*points, strict=True) if points else ((), ())
            label = name if place == 0 else None
            colour, style = colours[number % 10], styles[number // 10 % 3]
            ax.plot(x, y, color=colour, linestyle=style, linewidth=1.4, alpha=0.8, label=label)
    if floor is not None:
        ax.axhline(floor, color="gray", linestyle=":", linewidth=1, label="a constant answer")
    ends = {name: fmean([points[-1][1] for points in seeds if points] or [0.0]) for name, seeds in curves.items()}
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ordered = sorted(handles, key=lambda name: -ends.get(name, 0.0))  # the floor is last
    figure.legend([handles[name] for name in ordered], ordered, fontsize=8, frameon=False, loc="outside right upper")
    return figure


def intervals(scores: Mapping[str, tuple[float, float, float | None]], across: str) -> Figure:
    """Draw the mean and interval of each name, best on top, and the published number as a ring.

    Args:
        scores: name -> mean, half of its interval (NaN if unknown), published number or None.
        across: label of the x axis.
    """
    from matplotlib.figure import Figure

    names = sorted(scores, key=lambda name: scores[name][0])
    figure = Figure(figsize=(6.4, 0.8 + 0.27 * len(names)), layout="constrained")
    ax = figure.add_subplot()
    for place, name in enumerate(names):
        mean, half, published = scores[name]
        if published is not None:
            label = "published" if "published" not in ax.get_legend_handles_labels()[1] else None
            ax.plot(published, place, "o", color="C1", fillstyle="none", markersize=6, label=label)
        ax.plot([mean - half, mean + half], [place, place], color="C0", linewidth=2, solid_capstyle="butt")
        ax.plot(mean, place, "o", color="C0", markersize=5, label="here" if place == 0 else None)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlabel(across)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", linewidth=0.4)
    ax.legend(fontsize=8, frameon=False)
    return figure


def changes(values: Mapping[str, tuple[float, float]], across: str, levels: Mapping[str, float]) -> Figure:
    """Draw an arrow from a value to another for each name, the first on top, and lines at levels to compare with."""
    from matplotlib.figure import Figure

    names = [*values][::-1]
    figure = Figure(figsize=(6.4, 1.0 + 0.42 * len(names)), layout="constrained")
    ax = figure.add_subplot()
    for number, (name, level) in enumerate(levels.items()):
        ax.axvline(level, color=f"C{number}", linestyle="--", linewidth=1.2, label=name)
    for place, name in enumerate(names):
        before, after = values[name]
        ax.annotate("", (after, place), (before, place), arrowprops={"arrowstyle": "->", "color": "0.4"})
        ax.plot(before, place, "o", color="0.6", markersize=6)
        ax.plot(after, place, "o", color="C1", markersize=6)
        for value, colour in ((before, "0.35"), (after, "black")):
            ax.annotate(
                f"{value:.1f}", (value, place), (0, 7), textcoords="offset points", ha="center", size=8, color=colour,
                bbox={"fc": "white", "ec": "none", "pad": 0.5},
            )  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.6, len(names) - 0.2)
    ax.margins(x=0.06)
    ax.set_xlabel(across)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, frameon=False, loc="outside upper right")
    return figure


def scatter(points: Mapping[str, tuple[float, float]], across: str, up: str) -> Figure:
    """Draw a labelled dot per name."""
    figure, ax = plain_axes(across, up)
    for x, y in points.values():
        ax.plot(x, y, "o", color="C0", markersize=5)
    ax.margins(0.15)
    label_dots(figure, ax, points)
    return figure


def label_dots(figure: Figure, ax: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Write the name beside each dot; labels are moved where they would overlap one another or what is drawn."""
    from matplotlib.text import Text

    figure.draw_without_rendering()  # pixel positions are known from here on
    taken = [line.get_window_extent() for line in ax.lines]
    for name, place in points.items():
        line = {"arrowstyle": "-", "color": "gray", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2, "relpos": (0.5, 0.5)}
        label = ax.annotate(name, place, SIDES[0], textcoords="offset points", fontsize=8, arrowprops=line)
        for x, y in SIDES:
            label.set(position=(x, y), horizontalalignment="left" if x > 0 else "right")
            label.get_window_extent()  # places the words
            words = Text.get_window_extent(label)  # without the line, which always overlaps its own dot
            if not any(words.overlaps(other) for other in taken):
                break
        taken.append(words)


def clouds(groups: Mapping[str, Points], across: str, up: str) -> Figure:
    """Draw the points of each name in its own colour."""
    figure, ax = plain_axes(across, up)
    for name, points in groups.items():
        x, y = zip(*points, strict=True)
        ax.plot(x, y, "o", markersize=5, alpha=0.8, label=name)
    figure.legend(fontsize=8, frameon=False, loc="outside right upper")
    return figure


def lines(values: Mapping[str, Points], across: str, up: str) -> Figure:
    """Draw a line with markers per name, on a logarithmic x axis."""
    figure, ax = plain_axes(across, up)
    for name, points in values.items():
        x, y = zip(*points, strict=True)
        ax.plot(x, y, "--" if "ceiling" in name else "-o", markersize=3, linewidth=1.4, label=name)
    ticks = sorted({x for points in values.values() for x, _ in points})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.legend(fontsize=8, frameon=False)
    return figure
