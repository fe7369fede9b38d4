"""`loope status`: the progress of a table's runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loope.cli import options
from loope.cli.text import as_text
from loope.core.errors import require
from loope.core.plain import to_json


def status(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="A table; all if omitted.", autocompletion=options.complete_table),
    ] = None,
    preset: options.PresetOption = "laptop",
    only: options.OnlyOption = None,
    epochs: options.EpochsOption = None,
    seeds: options.SeedsOption = "0",
    classes: options.ClassesOption = None,
    skip_bad_images: options.SkipBadImagesOption = False,
    out: options.OutOption = options.OUT,
    as_json: options.JsonOption = False,
) -> None:
    """Show the progress of a table's runs, or of all tables.

    Example:
        loope status table4 --seeds 0,1,2
    """
    from loope.lab.experiments.results import STATES, statuses
    from loope.lab.experiments.table import table_names

    require(table is not None or not only, "--only selects rows of one table; name the table too.")
    numbers = options.read_seeds(seeds)
    progress = {}
    for name in [table] if table else table_names():
        entries = options.read_table(name, epochs, classes, skip_bad_images).select(preset, *(only or ()))
        progress[name] = statuses([entry.run.with_seed(seed) for entry in entries for seed in numbers], out / "runs")
    if as_json:
        rows = [
            {"table": name, "run": each.run.name, "state": each.state, "error": each.error}
            for name, found in progress.items()
            for each in found
        ]
        typer.echo(to_json(rows))
        return
    console = Console()
    shown = Table("table", *STATES, title=f"{preset}, seeds {as_text(seeds)}")
    for name, found in progress.items():
        shown.add_row(name, *(str(sum(each.state == state for each in found) or "·") for state in STATES))
    console.print(shown)
    for found in progress.values():
        for each in found:
            if each.error is not None:
                console.print(f"failed {as_text(each.run.name)}: {as_text(each.error)}", highlight=False)
