"""`loope three-cell`: show samples of Three-Cell, or export the dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from loope.cli import names
from loope.cli.options import MOST_SEED, JsonOption, busy, read_grid, require_drawing
from loope.cli.text import as_text
from loope.core.errors import one_of, require
from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.core.limits import MOST_PIXELS, MOST_SAMPLES
from loope.core.plain import to_json

if TYPE_CHECKING:
    from loope.three_cell import ThreeCell

three_cell = typer.Typer(
    help="Three-Cell, the position probe: three coloured cells, four geometric questions.", no_args_is_help=True
)

SizeOption = Annotated[int, typer.Option(help="Samples in all splits together.", min=1, max=MOST_SAMPLES)]
GridOption = Annotated[str, typer.Option(help="HEIGHTxWIDTH of the grid, at least 3x3.")]
CellOption = Annotated[int, typer.Option(help="Side of a cell in pixels.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Seed of the samples and splits.", min=0, max=MOST_SEED)]
SplitOption = Annotated[str | None, typer.Option(help="train, val or test; by default all.")]
SamplerOption = Annotated[str, typer.Option(help="exact, or paper for the published procedure.")]


@three_cell.command()
def show(
    count: Annotated[int, typer.Option(help="Number of samples.", min=1, max=100)] = 4,
    size: SizeOption = 10_000,
    grid: GridOption = "14x14",
    seed: SeedOption = 0,
    split: SplitOption = None,
    sampler: SamplerOption = "exact",
    draw: Annotated[Path | None, typer.Option(help="Also draw them into this PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show samples with their answers in the terminal, and optionally in a PNG file.

    Examples:
        loope three-cell show --count 2 --grid 7x7 --seed 3

        loope three-cell show --draw out/three-cell.png
    """
    _check_names(split, sampler)
    cells = _read_cells(grid, 1)
    if draw is not None:
        require_drawing(draw)
    from loope.three_cell import ThreeCell
    from loope.three_cell.bits import in_words

    with busy("Sampling"):
        data = ThreeCell(size, cells, 1, seed, split, sampler=sampler)
    count = min(count, len(data))
    if draw is not None:
        with busy("Drawing"):
            from loope import plots
            from loope.three_cell import drawing as drawings

            figure = drawings.samples(data.cells[:count], data.labels[:count], data.grid)
            write_atomic(draw, plots.png(figure))
    if as_json:
        rows = [
            {"cells": cells, "label": label, "answers": in_words(label)}
            for cells, label in zip(data.cells[:count].tolist(), data.labels[:count].tolist(), strict=True)
        ]
        typer.echo(to_json({"grid": list(data.grid), "samples": rows}))
        return
    console = Console()
    console.print(Columns([_sample(data, index) for index in range(count)], padding=(1, 4)))
    if draw is not None:
        console.print(f"Drawn: [bold]{as_text(draw)}[/bold]")


@three_cell.command()
def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="New or empty folder, or one of an interrupted export.")
    ],
    size: SizeOption = 10_000,
    grid: GridOption = "14x14",
    cell: CellOption = 16,
    seed: SeedOption = 0,
    split: SplitOption = None,
    sampler: SamplerOption = "exact",
    file_format: Annotated[str, typer.Option("--format", help="png (images and a CSV table) or npz.")] = "png",
    as_json: JsonOption = False,
) -> None:
    """Export the dataset with a data card. Rerun to resume after an interruption.

    Examples:
        loope three-cell export out/probe --split train

        loope three-cell export out/probe-7x7 --grid 7x7 --cell 4 --format npz
    """
    _check_names(split, sampler)
    one_of("format", file_format, names.EXPORT_FORMATS)
    cells = _read_cells(grid, cell)
    from loope.three_cell import ThreeCell
    from loope.three_cell.export import export as write

    data = ThreeCell(size, cells, cell, seed, split, sampler=sampler)
    console = Console(stderr=as_json)
    try:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"{len(data):,} images", total=1)
            card = write(data, folder, file_format, lambda share: progress.update(task, completed=share))
    except KeyboardInterrupt:
        console.print("Interrupted. Rerun the same command to resume.")
        raise typer.Exit(130) from None
    rates = data.majority_rates()
    if as_json:
        document = {"folder": str(folder), "card": str(card), "samples": len(data), "majority_rates": rates}
        typer.echo(to_json(document))
        return
    console.print(f"{len(data):,} samples in [bold]{as_text(folder)}[/bold], described in {as_text(card.name)}.")
    console.print(f"A constant answer scores {', '.join(f'{task} {rate:.1%}' for task, rate in rates.items())}.")


def _check_names(split: str | None, sampler: str) -> None:
    if split is not None:
        one_of("split", split, names.SPLITS)
    one_of("sampler", sampler, names.SAMPLERS)


def _read_cells(grid: str, cell: int) -> Grid:
    cells = read_grid(grid)
    require(
        cells.size * cell**2 <= MOST_PIXELS,
        f"An image may have up to {MOST_PIXELS:,} pixels, got a grid of {cells} with cells of {cell}x{cell}.",
    )
    return cells


def _sample(data: ThreeCell, index: int) -> Text:
    """Render the grid as coloured letters, with the answers below it."""
    from loope.three_cell.bits import COLOURS, in_words

    letters = {tuple(place): name for place, name in zip(data.cells[index].tolist(), COLOURS, strict=True)}
    text = Text()
    for row in range(data.grid.height):
        for column in range(data.grid.width):
            name = letters.get((row, column))
            if name is None:
                text.append("· ", style="dim")
            else:
                text.append(name[0].upper(), style=f"bold white on {name}").append(" ")
        text.append("\n")
    for answer in in_words(data.labels[index].tolist()).values():
        text.append(f"{answer}\n")
    return text
