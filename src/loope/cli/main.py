"""`loope`: one tool, one file a command. Nothing heavy is imported before a command runs."""

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

import loope
from loope.cli.demo import demo
from loope.cli.encoders import encoders
from loope.cli.experiments import report, run, status, tables
from loope.cli.explore import explore
from loope.cli.order import order
from loope.cli.pesi import pesi
from loope.cli.segment import segment
from loope.cli.three_cell import three_cell
from loope.core.errors import LoopeError
from loope.core.text import printable

app = typer.Typer(
    help="Positional encodings for vision transformers: see, compare and measure where patches are.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(order)
app.command()(encoders)
app.add_typer(three_cell, name="three-cell")
app.command()(pesi)
for command in (run, report, status, tables, segment, explore):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(loope.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it, exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks instead of messages; also after a command.")
    ] = False,
) -> None:
    """Where patches are: positional encodings for vision transformers."""


def main() -> None:
    """Run the command line.

    Exit codes: 0, done; 1, something failed, such as a run or a disk; 2, a mistake in what was typed; 3, what is
    left is running elsewhere; 130, interrupted.
    """
    # Where a terminal, or a name in it, cannot be written as it is, a question mark is better than a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if not os.environ.get("COLUMNS", "1").strip("0"):  # some shells export a width of 0, at which nothing is shown
        del os.environ["COLUMNS"]
    debug = "--debug" in sys.argv  # wherever it stands
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        app()
    except LoopeError as error:
        if debug:
            raise
        _stop(str(error), 2)
    except OSError as error:
        if debug:
            raise
        _stop(f"{error.strerror}: {error.filename}" if error.strerror else str(error), 1)
    except (MemoryError, RuntimeError) as error:
        if debug or not (isinstance(error, MemoryError) or "allocate memory" in str(error)):
            raise
        _stop("There is not enough memory for this; ask for less.", 1)


def _stop(message: str, code: int) -> None:
    typer.secho(f"Error: {printable(message)}", fg=typer.colors.RED, err=True)
    sys.exit(code)
