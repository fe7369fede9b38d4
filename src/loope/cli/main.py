"""The `loope` command. Each subcommand has its own file and imports heavy packages only when it runs."""

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

import loope
from loope.cli.demo import demo
from loope.cli.diagnose import audit, diagnose
from loope.cli.encoders import encoders
from loope.cli.explore import explore
from loope.cli.order import order
from loope.cli.pesi import pesi
from loope.cli.report import report
from loope.cli.run import run
from loope.cli.segment import segment
from loope.cli.status import status
from loope.cli.swap import swap
from loope.cli.tables import tables
from loope.cli.three_cell import three_cell
from loope.core.errors import LoopeError
from loope.core.text import printable

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(order)
app.command()(encoders)
app.add_typer(three_cell, name="three-cell")
app.command()(pesi)
for command in (audit, diagnose, swap, run, report, status, tables, segment, explore):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(loope.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks for errors. Accepted anywhere on the line.")
    ] = False,
) -> None:
    """Positional encodings for vision transformers: compare, measure and visualize them."""


def main() -> None:
    """Run the command line.

    Exit codes: 0, success; 1, a failure, such as a failed run or a full disk; 2, a usage error; 3, another process is
    training the remaining runs; 130, interrupted.
    """
    # Print a question mark for a character that the terminal cannot encode, instead of failing.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if not os.environ.get("COLUMNS", "1").strip("0"):  # some shells export a width of 0, which hides all output
        del os.environ["COLUMNS"]
    debug = "--debug" in sys.argv
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
        _stop("Out of memory; choose a smaller size.", 1)


def _stop(message: str, code: int) -> None:
    typer.secho(f"Error: {printable(message)}", fg=typer.colors.RED, err=True)
    sys.exit(code)
