"""Write a table with its figures to files."""

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
