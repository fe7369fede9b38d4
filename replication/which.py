"""Which encoding: the tables of docs/which-encoding.md and docs/results/study.md, and their figure."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from loope.core.files import write_atomic
from loope.lab.experiments.statistics import over_seeds
from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables.encoders import GRIDS, LARGE_GRIDS
from loope.lab.reports.figures import label_dots
from loope.plots import png
from loope.plots.layout import plain_axes
from replication import study
from replication.evidence import DOCS, Evidence, Measured, gather
from replication.guide import Advice, advise, advise_in_short, from_scratch, leaders, other_grids
from replication.results import table
from replication.rules import plus_minus

FIGURE = "which-encoding.png"
KINDS = {"none": "C7", "additive": "C0", "conditional": "C2", "rotary": "C1", "bias": "C4"}
TICKS = (40, 60, 80, 90, 95, 98, 99, 99.5)
NOT_RUN = "not run"
IN_README = 4  # rows


def guide() -> str:
    """Return the decision guide."""
    return "\n".join(each.line() for each in advise(gather()))


def told(rule: Callable[[Evidence], Advice]) -> str:
    """Return the answer to one question of the guide, for the page of the study."""
    advice = rule(gather())
    return f"{advice.answer[0].upper()}{advice.answer[1:]}. {advice.because}"


def summary() -> str:
    """Return the guide's answers in short and the table's first rows, for the README."""
    found = gather()
    lines = "\n".join(each.short() for each in advise_in_short(found))
    first = ((name, found.encoders[name]) for name in leaders(found)[:IN_README])
    rows = [
        (
            f"`{name}`",
            score(each.scores),
            f"{min(grid.mean for grid in each.grids.values()):.1f}",
            _kept(each),
            "-" if each.training is None else f"{each.training:.2f}",
        )
        for name, each in first
        if each.grids
    ]
    own = NOT_RUN if found.own_at_once is None else f"{found.own_at_once:.1f}"
    heads = (
        *("encoder", "Three-Cell 7x7, %", "lowest on 5x5, 10x10, 14x14, not trained there, %"),
        f"top-1 of a pretrained model, encoder alone, before and after a hand-over, % (own table {own})",
        "time of a training step (own table 1)",
    )
    return f"{lines}\n\n{table(heads, rows)}" if rows else lines


def main_table() -> str:
    """Return what is known of every encoder."""
    found = gather()
    heads = (
        *("encoder", "Three-Cell 7x7, %", *(f"{side}x{side}" for side in GRIDS), "Pets, %", "top-1 kept, %"),
        *("PESI: M_U, M_D", "training", "inference", "parameters", "flash", "ONNX", "other sizes"),
    )
    rows = [(f"`{name}`", *_cells(each)) for name, each in found.encoders.items()]
    return table(heads, rows)


def _cells(each: Measured) -> list[str]:
    parameters = each.what.parameters
    return [
        score(each.scores),
        *(f"{each.grids[side].mean:.1f}" if side in each.grids else "-" for side in GRIDS),
        score(each.pets.values()),
        _kept(each),
        "-" if each.m_u is None else f"{each.m_u:.2f}, {each.m_d:.0f} %",
        *("-" if time is None else f"{time:.2f}" for time in (each.training, each.inference)),
        "-" if parameters is None else f"{parameters:,}",
        "yes" if each.what.flash else "no",
        "yes" if each.what.onnx == "yes" else "baked",
        each.what.sizes,
    ]


def _kept(each: Measured) -> str:
    kept = "-" if each.at_once is None else f"{each.at_once:.1f}"
    if each.handed_over is not None:
        kept += f"; {each.handed_over[1]:.1f} after {each.handed_over[0]:,} steps"
    return kept


def score(values: Collection[float]) -> str:
    """Format a mean over seeds with their standard deviation and number."""
    if not values:
        return NOT_RUN
    return f"{fmean(values):.1f}{f' ± {stdev(values):.1f}' if len(values) > 1 else ''} ({len(values)})"


def own() -> str:
    """Return what the model with its own table scores, for the page's words."""
    found = gather()
    kept = NOT_RUN if found.own_at_once is None else f"{found.own_at_once:.1f} %"
    return f"{kept}; on Pets {score(found.own_pets.values())}"


def models() -> str:
    """Return how many of timm's ViT-like models take each kind of encoder, from docs/models.csv."""
    with (DOCS / "models.csv").open(newline="") as file:
        next(file)  # versions
        alike = [row for row in csv.DictReader(file) if row["library"] == "timm" and row["vit_like"] == "yes"]
    counts = {kind: sum(row[kind] == "yes" for row in alike) for kind in KINDS if kind in alike[0]}
    return f"{', '.join(f'{kind} {count}' for kind, count in counts.items())} of {len(alike)}"


def rows_of(name: str, columns: Sequence[str], unit: str, large: bool = False) -> str:
    """Return a table's rows, those of the large grid or the others, with these columns: mean, interval and seeds."""
    cells = study.by_seed(get_table(name))
    rows = []
    for row, (done, planned) in study.seeds_done(name).items():
        if row.endswith(", 14x14") == large:
            found = [over_seeds(cells[row, each].tolist()) if (row, each) in cells else None for each in columns]
            shown = ("-" if each is None else f"{each.mean:.1f}{plus_minus(each.half)}" for each in found)
            rows.append((row, *shown, f"{done} of {planned}"))
    return table((unit, *columns, "seeds"), rows)


QUESTIONS = ("Distance", "Orientation", "Area", "Vector sum", "Average")
OTHER_GRIDS = ("Average", *(f"Average, {side}x{side}" for side in GRIDS))
FROM_LARGE = ("Average", *(f"Average, {side}x{side}" for side in LARGE_GRIDS))


def draw(images: Path) -> None:
    """Draw Three-Cell on the grid of training against the mean of the other grids, by kind."""
    figure, ax = plain_axes("7x7, trained, %", "mean of 5x5, 10x10 and 14x14, not trained, %")
    figure.set_size_inches(8, 5.5)
    for axis in (ax.set_xscale, ax.set_yscale):  # by the error: the best are close together
        axis("function", functions=(_to_scale, _from_scale))
    ax.set_xticks(TICKS, map(str, TICKS))
    ax.set_yticks(TICKS, map(str, TICKS))
    points = {
        name: (each.what.kind, (fmean(each.scores), fmean(grid.mean for grid in each.grids.values())))
        for name, each in gather().encoders.items()
        if each.scores and each.grids
    }
    for kind, (x, y) in points.values():
        known = kind in ax.get_legend_handles_labels()[1]
        ax.plot(x, y, "o", color=KINDS.get(kind, "C3"), markersize=5, label=None if known else kind)
    if points:
        figure.legend(fontsize=8, frameon=False, loc="outside right upper")
    label_dots(figure, ax, {name: place for name, (_, place) in points.items()})
    ends = (TICKS[0], TICKS[-1])
    ax.plot(ends, ends, color="gray", linewidth=0.8, linestyle=":", zorder=0)
    write_atomic(images / FIGURE, png(figure))


def _to_scale(percent: Any) -> Any:
    return -np.log10(np.maximum(100.05 - percent, 1e-6))


def _from_scale(place: Any) -> Any:
    return 100.05 - 10.0**-place


TABLES: dict[str, Callable[[], str]] = {
    "guide": guide,
    "which": main_table,
    "own": own,
    "models-by-kind": models,
    "study-leads": partial(told, from_scratch),
    "study-extrapolates": partial(told, other_grids),
    "study-plan": study.plan,
    "study-questions": partial(rows_of, "encoders", QUESTIONS, "7x7, test, %"),
    "study-grids": partial(rows_of, "encoders", OTHER_GRIDS, "trained on 7x7, %"),
    "study-large": partial(rows_of, "encoders", FROM_LARGE, "trained on 14x14, %", large=True),
    "study-swap": partial(rows_of, "swap", ("Oxford-IIIT",), "top-1 on Pets, %"),
}
