"""`loope encoders`: list the encoders."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loope.cli.names import KINDS, require_encoders
from loope.cli.options import JsonOption, busy, read_grid
from loope.core.errors import one_of
from loope.core.limits import MOST_CELLS_COMPARED, MOST_DIM, require_cells
from loope.core.plain import to_json


def encoders(
    pattern: Annotated[str, typer.Argument(help="Names to list, with * as a wildcard.")] = "*",
    kind: Annotated[
        str | None, typer.Option(help="List one kind: none, additive, conditional, rotary or bias.")
    ] = None,
    grid: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the grid, for the parameter count.")] = "14x14",
    dim: Annotated[int, typer.Option(help="Width of the tokens, for the parameter count.", min=1, max=MOST_DIM)] = 768,
    as_json: JsonOption = False,
) -> None:
    """List the encoders by kind, with parameters (- if the size is not supported), paper and options.

    Other sizes: learned parameters are resampled; positions are stretched over every image, or count in cells; a curve
    is drawn anew. Flash: works with flash attention.

    Examples:
        loope encoders

        loope encoders --kind rotary

        loope encoders 'rope*' --json
    """
    require_encoders([pattern])
    if kind is not None:
        one_of("kind", kind, KINDS)
    size = read_grid(grid)
    require_cells(size, MOST_CELLS_COMPARED, "This command")
    with busy("Counting"):
        from loope.encoders.describe import describe, grouped

        rows = describe(size, dim, pattern, kind)
    if as_json:
        typer.echo(to_json([row._asdict() for row in rows]))
        return
    columns = ("encoder", "kind", "parameters", "other sizes", "flash", "ONNX", "paper", "options")
    table = Table(title=f"Encoders at {grid}, width {dim}")
    for column in columns:
        table.add_column(column, no_wrap=column == "encoder")
    for group in grouped(rows).values():
        for row in group:
            count = "-" if row.parameters is None else f"{row.parameters:,}"
            flash = "yes" if row.flash else "no"
            table.add_row(row.name, row.kind, count, row.sizes, flash, row.onnx, row.paper, ", ".join(row.options))
        table.add_section()
    Console().print(table)
