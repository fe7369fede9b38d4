"""`loope encoders`: what encoders there are."""

from typing import Annotated

import typer

from loope.cli.options import JsonOption, busy
from loope.core.limits import MOST_CELLS_COMPARED, MOST_DIM, require_cells
from loope.core.plain import to_json


def encoders(
    pattern: Annotated[str, typer.Argument(help="Names to show, with * as in the shell.")] = "*",
    grid: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the grid that parameters are counted for.")] = "14x14",
    dim: Annotated[int, typer.Option(help="Width of the tokens.", max=MOST_DIM)] = 768,
    as_json: JsonOption = False,
) -> None:
    """List the encoders: where each acts, its parameters at this size (- if it cannot take it), its paper and options.

    Examples:
        loope encoders

        loope encoders 'rope*' --json
    """
    from rich.console import Console
    from rich.table import Table

    from loope.cli.options import read_grid

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
