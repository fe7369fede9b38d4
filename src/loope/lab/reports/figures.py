"""Drawings of training runs: learning curves, scores against each other, and trends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from loope.plots.layout import plain_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
SIDES = tuple((x, y) for y in (4, -10, 14, -20) for x in (5, -5))  # where a name may stand beside its dot


def learning_curves(curves: Mapping[str, Sequence[Points]], across: str, up: str, floor: float | None = None) -> Figure:
    """A colour for each name, a thin line for each of its seeds; names stand beside, in the order in which they end.

    Args:
        curves: name -> for each seed its (x, y) points.
        across: what runs along x.
        up: what runs along y.
        floor: a level to mark: what guessing scores.
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
    ordered = sorted(handles, key=lambda name: -ends.get(name, 0.0))  # the floor comes last
    figure.legend([handles[name] for name in ordered], ordered, fontsize=8, frameon=False, loc="outside right upper")
    return figure


def intervals(scores: Mapping[str, tuple[float, float, float | None]], across: str) -> Figure:
    """A line for each name, the best on top: our mean with its interval, and a ring where the published number is.

    Args:
        scores: name -> mean, half of its interval (NaN if unknown), published number.
        across: what is drawn.
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


def scatter(points: Mapping[str, tuple[float, float]], across: str, up: str) -> Figure:
    """Each name at its place: whether one score tells the other. Names that would lie on others go to another side."""
    figure, ax = plain_axes(across, up)
    dots = [ax.plot(x, y, "o", color="C0", markersize=5)[0] for x, y in points.values()]
    ax.margins(0.15)
    figure.draw_without_rendering()  # places in pixels are known from here on
    taken = [dot.get_window_extent() for dot in dots]
    for name, place in points.items():
        label = ax.annotate(name, place, SIDES[0], textcoords="offset points", fontsize=8)
        for x, y in SIDES:
            label.set(position=(x, y), horizontalalignment="left" if x > 0 else "right")
            if not any(label.get_window_extent().overlaps(other) for other in taken):
                break
        taken.append(label.get_window_extent())
    return figure


def clouds(groups: Mapping[str, Points], across: str, up: str) -> Figure:
    """A dot for each point, a colour for each name."""
    figure, ax = plain_axes(across, up)
    for name, points in groups.items():
        x, y = zip(*points, strict=True)
        ax.plot(x, y, "o", markersize=5, alpha=0.8, label=name)
    figure.legend(fontsize=8, frameon=False, loc="outside right upper")
    return figure


def lines(values: Mapping[str, Points], across: str, up: str) -> Figure:
    """A line with marks for each name; x is drawn by its logarithm."""
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
