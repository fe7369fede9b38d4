"""`loope report`: a table's results beside the published numbers, with its plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loope.cli import names, options
from loope.core.errors import one_of, require
from loope.core.packages import require_packages
from loope.core.text import printable


def report(
    table: options.TableArgument,
    preset: options.PresetOption = "laptop",
    only: options.OnlyOption = None,
    epochs: options.EpochsOption = None,
    seeds: options.SeedsOption = "0",
    classes: options.ClassesOption = None,
    skip_bad_images: options.SkipBadImagesOption = False,
    file_format: Annotated[str, typer.Option("--format", help="md, html, latex, csv or json.")] = "md",
    out: options.OutOption = options.OUT,
    to: Annotated[Path | None, typer.Option(help="File to write, - for stdout; by default in --out.")] = None,
) -> None:
    """Write a table's results beside the published numbers, with its plots.

    Examples:
        loope report table4 --seeds 0,1,2 --format html

        loope report table1 --format csv --to -
    """
    require_packages("A report", "train", "pandas", "scipy")
    one_of("format", file_format, names.REPORT_ENDINGS)
    if to is not None:
        require(not to.is_dir(), f"--to takes a file, got the folder {str(to)!r}.")
        if to.suffix:
            one_of("ending of a report", to.suffix, [f".{ending}" for ending in names.REPORT_ENDINGS.values()])
    numbers = options.read_seeds(seeds)
    found = options.read_table(table, epochs, classes, skip_bad_images).narrowed(*(only or ()))
    found.select(preset)  # fail early for an unknown preset
    from loope.lab.experiments.report import make_results_table, write_report
    from loope.lab.experiments.results import Results
    from loope.lab.reports.formats import render

    if to == Path("-"):
        shown = make_results_table(found, preset, numbers, Results.in_folder(out / "runs"))
        typer.echo(render(shown, file_format), nl=False)
        return
    with options.busy("Drawing"):
        written = write_report(found, preset, numbers, out, file_format, to)
    typer.echo(f"Written: {printable(written)}")
