"""`loope encoders`: list the encoders."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loope.cli.options import JsonOption, busy, read_grid
from loope.core.limits import MOST_CELLS_COMPARED, MOST_DIM, require_cells
from loope.core.plain import to_json


def encoders(
    pattern: Annotated[str, typer.Argument(help="Names to list, with * as a wildcard.")] = "*",
    grid: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the grid, for the parameter count.")] = "14x14",
    dim: Annotated[int, typer.Option(help="Width of the tokens, for the parameter count.", max=MOST_DIM)] = 768,
    as_json: JsonOption = False,
) -> None:
    """List the encoders: kind, number of parameters (- if the size is not supported), paper and options.

    Examples:
        loope encoders

        loope encoders 'rope*' --json
    """
    size = read_grid(grid)
    require_cells(size, MOST_CELLS_COMPARED, "This command")
    with busy("Counting"):
        from loope.encoders.describe import describe

        rows = describe(size, dim, pattern)
    if as_json:
        typer.echo(to_json([row._asdict() for row in rows]))
        return
    table = Table("encoder", "kind", "parameters", "paper", "options", title=f"Encoders at {grid}, width {dim}")
    for row in rows:
        count = "-" if row.parameters is None else f"{row.parameters:,}"
        table.add_row(row.name, row.kind, count, row.paper, ", ".join(row.options))
    Console().print(table)
