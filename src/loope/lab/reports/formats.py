"""Render our numbers beside the published ones as Markdown, HTML, LaTeX, CSV or JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from pandas import DataFrame

from loope.core.errors import one_of
from loope.core.plain import to_json

MISSING = "—"


@dataclass(frozen=True)
class Cell:
    """A cell: our mean over `n` seeds with half its 95 % interval, and the published number; None if missing.

    Args:
        ours: our mean, in the displayed unit.
        half: half of the 95 % interval; NaN for one seed.
        n: number of seeds.
        published: published number, in the displayed unit.
        best: whether ours is the best of its row or column.
        digits: displayed decimals.
    """

    ours: float | None = None
    half: float = math.nan
    n: int = 0
    published: float | None = None
    best: bool = False
    digits: int = 1

    @property
    def difference(self) -> float | None:
        """Ours minus the published number."""
        return None if self.ours is None or self.published is None else self.ours - self.published

    def number(self) -> str:
        """Return our mean with its interval, or `MISSING`."""
        if self.ours is None:
            return MISSING
        half = "" if math.isnan(self.half) else f" ± {self.half:.{self.digits}f}"
        return f"{self.ours:.{self.digits}f}{half}"

    def comparison(self) -> str:
        """Return the published number and the difference, or ""."""
        if self.published is None:
            return ""
        apart = "" if self.difference is None else f" ({self.difference:+.{self.digits}f})"
        return f"{self.published:.{self.digits}f}{apart}"


@dataclass(frozen=True)
class ResultsTable:
    """A table ready to be rendered.

    Args:
        title: title of the table.
        columns: column headers.
        rows: name of each row with one cell per column.
        notes: notes for the reader, one paragraph each.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Sequence[str] = ()


LEGEND = "Ours: mean ± half of the 95 % interval over n seeds; below it the published number and our difference to it."


def markdown(table: ResultsTable) -> str:
    """Render a Markdown section."""
    head = ["", *table.columns]
    lines = [f"## {table.title}", "", _bar(head), _bar(["---"] * len(head))]
    lines += [_bar([name, *(_markdown_cell(cell) for cell in cells)]) for name, cells in table.rows]
    return "\n".join([*lines, "", LEGEND, *(f"\n{note}" for note in table.notes)]) + "\n"


def html(table: ResultsTable) -> str:
    """Render an HTML section, without the page around it."""
    head = "".join(f"<th>{escape(column)}</th>" for column in ("", *table.columns))
    body = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(_html_cell(cell) for cell in cells)}</tr>" for name, cells in table.rows
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in (LEGEND, *table.notes))
    return f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{body}</table>{notes}"


def latex(table: ResultsTable) -> str:
    """Render a LaTeX `table`; needs the booktabs package."""
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule"]
    lines.append(" & ".join(["", *map(_tex, table.columns)]) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join([_tex(name), *(_latex_cell(cell) for cell in cells)]) + r" \\" for name, cells in table.rows]
    caption = " ".join((table.title + ".", LEGEND, *table.notes))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\caption{{{_tex(caption)}}}", r"\end{table}"]) + "\n"


def long_csv(table: ResultsTable) -> str:
    """Render one CSV line per cell: row, column, mean, half, n, published, difference."""
    lines = [
        {"row": name, "column": column, **_numbers(cell)}
        for name, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
    ]
    return str(DataFrame(lines).to_csv(index=False, float_format="%.10g"))


def as_json(table: ResultsTable) -> str:
    """Render title, notes and rows with their cells by column as JSON; null for missing numbers."""
    rows = [
        {"row": name, "cells": {column: _numbers(cell) for column, cell in zip(table.columns, cells, strict=True)}}
        for name, cells in table.rows
    ]
    return to_json({"title": table.title, "notes": list(table.notes), "rows": rows}) + "\n"


FORMATS: dict[str, Callable[[ResultsTable], str]] = {
    "md": markdown,
    "html": html,
    "latex": latex,
    "csv": long_csv,
    "json": as_json,
}


def render(table: ResultsTable, file_format: str) -> str:
    """Render a table in one of `FORMATS`.

    Raises:
        LoopeError: for an unknown format.
    """
    one_of("format", file_format, FORMATS)
    return FORMATS[file_format](table)


def _numbers(cell: Cell) -> dict[str, float | None]:
    numbers = {"mean": cell.ours, "half_95": cell.half, "n": cell.n}
    return {**numbers, "published": cell.published, "difference": cell.difference}


def _markdown_cell(cell: Cell) -> str:
    number = f"**{cell.number()}**" if cell.best else cell.number()
    seeds = f" (n={cell.n})" if cell.n else ""
    comparison = cell.comparison()
    return f"{number}{seeds}<br>{comparison}" if comparison else f"{number}{seeds}"


def _html_cell(cell: Cell) -> str:
    number = f"<b>{cell.number()}</b>" if cell.best else cell.number()
    seeds = f" <small>n={cell.n}</small>" if cell.n else ""
    return f"<td>{number}{seeds}<br><small>{escape(cell.comparison())}</small></td>"


def _latex_cell(cell: Cell) -> str:
    number = _tex(cell.number())
    number = rf"\textbf{{{number}}}" if cell.best else number
    seeds = rf" \scriptsize{{(n={cell.n})}}" if cell.n else ""
    if not cell.comparison():
        return f"{number}{seeds}"
    return rf"\shortstack{{{number}{seeds} \\ \scriptsize{{{_tex(cell.comparison())}}}}}"


def _tex(text: str) -> str:
    for plain, command in (("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$"), (MISSING, "--"), ("#", r"\#")):
        text = text.replace(plain, command)
    return text


def _bar(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
