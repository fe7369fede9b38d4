"""Fill a table from results, means over seeds beside the published numbers, and write it with its figures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pandas import DataFrame

from loope.core.files import write_atomic
from loope.lab.experiments.figures import draw
from loope.lab.experiments.results import Results
from loope.lab.experiments.statistics import Mean
from loope.lab.experiments.table import Column, Table
from loope.lab.reports import html
from loope.lab.reports.formats import Cell, ResultsTable, render
from loope.plots import png

ENDINGS = {"md": "md", "html": "html", "latex": "tex", "csv": "csv", "json": "json"}


def make_results_table(table: Table, preset: str, seeds: Sequence[int], results: Results) -> ResultsTable:
    """Fill a table from the finished runs; cells without results are left missing.

    Args:
        table: the table.
        preset: preset of the runs.
        seeds: seeds to average over; unfinished ones are skipped.
        results: results of runs.
    """
    found = results.means(table, preset, seeds)
    rows = list(dict.fromkeys([entry.row for entry in table.entries(preset)]))
    cells = {row: [_cell(table, column, row, found) for column in table.columns] for row in rows}
    lines = list(_with_best(table, cells).items())
    notes = [table.notes[preset]] if preset in table.notes else []
    notes += _other_images(table, preset, seeds, results)
    if preset == "smoke":
        notes.append("A smoke test: these numbers mean nothing.")
    return ResultsTable(
        f"{table.title} ({table.name}, {preset})",
        [c.head for c in table.columns],
        lines + _derived(table, found, preset),
        notes,
    )


def _other_images(table: Table, preset: str, seeds: Sequence[int], results: Results) -> list[str]:
    """Return a warning for each data set of which runs saw different images."""
    seen: dict[tuple[str, str], set[str]] = {}  # data set and options -> digests of the images that runs saw
    for run in (entry.run.with_seed(seed) for entry in table.entries(preset) for seed in seeds):
        digests = (results.result(run) or {}).get("digests")
        if digests:
            share = {name: value for name, value in run.data.options.items() if name != "image_size"}
            part = (run.data.name, json.dumps(share, sort_keys=True))
            seen.setdefault(part, set()).add(json.dumps(digests, sort_keys=True))
    mixed = dict.fromkeys(name for (name, _), found in seen.items() if len(found) > 1)
    return [
        f"Runs on {name} saw different images, and cannot be compared: the files on the disk were not the same."
        for name in mixed
    ]


def _cell(table: Table, column: Column, row: str, found: dict[str, dict[str, Mean]]) -> Cell:
    published = table.published.get(row, {}).get(column.head)
    mean = found.get(row, {}).get(column.head)
    if mean is None:
        return Cell(published=published, digits=column.digits)
    return Cell(mean.mean * column.scale, mean.half * column.scale, mean.n, published, digits=column.digits)


def _with_best(table: Table, cells: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Mark our best number in each row or column that has several; equal displayed numbers are equally good."""
    rated = [column.best for column in table.columns]
    lines = {
        row: [round(cell.ours, cell.digits) if cell.ours is not None and mark else math.nan
              for cell, mark in zip(line, rated, strict=True)]
        for row, line in cells.items()
    }  # fmt: skip
    shown = DataFrame.from_dict(lines, orient="index")
    over, along = (1, 0) if table.across else (0, 1)
    best = shown.eq(shown.max(axis=over).where(shown.count(axis=over) > 1), axis=along)
    return {
        row: [replace(cell, best=bool(mark)) for cell, mark in zip(line, best.loc[row], strict=True)]
        for row, line in cells.items()
    }


def _derived(table: Table, found: dict[str, dict[str, Mean]], preset: str) -> list[tuple[str, list[Cell]]]:
    if table.derived is None:
        return []
    means = {row: {column: mean.mean for column, mean in line.items()} for row, line in found.items()}
    ours, published, digits = table.derived.compute(means, preset), table.derived.published, table.derived.digits
    return [
        (
            row,
            [
                Cell(line.get(column.head), published=published.get(row, {}).get(column.head), digits=digits)
                for column in table.columns
            ],
        )
        for row, line in ours.items()
    ]


def write_report(
    table: Table, preset: str, seeds: Sequence[int], out: Path, file_format: str, to: Path | None = None
) -> Path:
    """Write a table to a file: HTML embeds its figures, Markdown and LaTeX link them, CSV and JSON have none.

    Args:
        table: the table.
        preset: preset of the runs.
        seeds: seeds to average over.
        out: the folder of experiments; its runs are in `runs`.
        file_format: "md", "html", "latex", "csv" or "json".
        to: output file; by default named after table and preset, in `out/reports`.
    """
    results = Results.in_folder(out / "runs")
    text = render(make_results_table(table, preset, seeds, results), file_format)
    path = to or out / "reports" / f"{table.name}-{preset}.{ENDINGS[file_format]}"
    figures = draw(table, preset, seeds, results) if file_format not in ("csv", "json") else {}
    if file_format == "html":
        pictures = [html.picture(png(figure), name) for name, figure in figures.items()]
        return write_atomic(path, html.page(table.title, text, *pictures))
    for name, figure in figures.items():
        file = write_atomic(path.with_name(f"{name}.png"), png(figure))
        text += f"\n![{name}]({file.name})\n" if file_format == "md" else f"\\includegraphics{{{file.name}}}\n"
    return write_atomic(path, text)
