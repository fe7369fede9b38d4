"""Write a table with its drawings to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loope.core.files import write_atomic
from loope.lab.experiments.figures import draw
from loope.lab.experiments.results import Results
from loope.lab.experiments.results_table import make_results_table
from loope.lab.experiments.table import Table
from loope.lab.reports import html
from loope.lab.reports.results_table import render
from loope.plots import png

ENDINGS = {"md": "md", "html": "html", "latex": "tex", "csv": "csv", "json": "json"}


def write_report(
    table: Table, preset: str, seeds: Sequence[int], out: Path, file_format: str, to: Path | None = None
) -> Path:
    """The table in one file: HTML holds its drawings, Markdown and LaTeX have them beside it, CSV and JSON have none.

    Args:
        table: what to write.
        preset: which runs.
        seeds: over which to take means.
        out: the folder of experiments; its runs are in `runs`.
        file_format: "md", "html", "latex", "csv" or "json".
        to: the file; by default named after table and preset in `reports` below `out`.
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
