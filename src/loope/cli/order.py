"""`loope order`: compare and draw patch orders."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loope.cli.names import require_orders
from loope.cli.options import JsonOption, busy, read_grid, require_drawing
from loope.core.files import write_atomic
from loope.core.limits import MOST_CELLS_ORDERED, require_cells
from loope.core.plain import to_json


def order(
    names: Annotated[list[str] | None, typer.Argument(help="Orders to compare; by default all.")] = None,
    grid: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the grid.")] = "14x14",
    draw: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare patch orders by how well they preserve neighbourhoods.

    Examples:
        loope order gilbert raster --grid 7x28

        loope order --draw orders.png
    """
    require_orders(names or ())
    size = read_grid(grid)
    require_cells(size, MOST_CELLS_ORDERED, "This command")
    if draw is not None:
        require_drawing(draw)
    with busy("Ordering"):
        from loope.orders import create_order, list_orders

        chosen = [create_order(name, *size) for name in names or list_orders()]
        scores = {made.name: made.locality() for made in chosen}
    if draw is not None:
        from loope import plots

        write_atomic(draw, plots.png(plots.orders(chosen)))
    if as_json:
        rows = {name: score._asdict() for name, score in scores.items()}
        typer.echo(to_json({"grid": list(size), "orders": rows}))  # a score that is undefined on a small grid is null
        return
    table = Table("order", "neighbour distance", "kept", "rank correlation", title=f"Patch orders on {size}")
    for name, score in scores.items():
        shown = (f"{score.neighbour_distance:.3f}", f"{score.kept:.1%}", f"{score.rank_correlation:.3f}")
        table.add_row(name, *("-" if cell.startswith("nan") else cell for cell in shown))
    Console().print(table)
