"""`loope tables`: the tables that can be run."""

import typer
from rich.console import Console
from rich.table import Table

from loope.cli.options import JsonOption
from loope.core.plain import to_json


def tables(as_json: JsonOption = False) -> None:
    """List the tables, with the number of runs of each preset.

    Example:
        loope tables
    """
    from loope.lab.experiments.table import PRESETS, get_table, table_names

    rows = []
    for name in table_names():
        found = get_table(name)
        counts = {preset: len({entry.run for entry in found.entries(preset)}) for preset in PRESETS}
        rows.append({"name": name, "title": found.title, "runs": counts})
    if as_json:
        typer.echo(to_json(rows))
        return
    shown = Table("table", "shows", *(f"{preset} runs" for preset in PRESETS))
    for row in rows:
        shown.add_row(str(row["name"]), str(row["title"]), *(str(row["runs"][preset]) for preset in PRESETS))  # type: ignore[index]
    Console().print(shown)
