"""The `loope` command. Each subcommand has its own file and imports heavy packages only when it runs."""

import os
import sys
from collections.abc import Callable
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

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Explore": (explore, encoders, order),
    "Measure": (pesi, audit, diagnose),
    "Use": (swap, segment),
    "Reproduce": (demo, tables, run, status, report),
}
for group, commands in GROUPS.items():
    for command in commands:
        app.command(rich_help_panel=group)(command)
app.add_typer(three_cell, name="three-cell", rich_help_panel="Explore")

OVERVIEW = """\
Explore    loope explore                     compare encodings in the browser
           loope encoders                    list the encoders
           loope order gilbert raster        compare patch orders
Measure    loope pesi gilbert sincos2d       how well do they keep geometry?
           loope audit vit_tiny_patch16_224  does a model use positions right?
           loope diagnose --help             what do its layers know of them?
Use        loope swap --help                 a new encoder for a trained model
Reproduce  loope demo                        five encoders compared, 5 minutes
           loope run table4                  a table of the paper

loope --help lists all commands, loope COMMAND --help explains one."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(loope.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks for errors. Accepted anywhere on the line.")
    ] = False,
) -> None:
    """Positional encodings for vision transformers: compare, measure and visualize them."""
    if context.invoked_subcommand is None:
        typer.echo(f"loope {loope.__version__}: positional encodings for vision transformers\n\n{OVERVIEW}")


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
    lines = "\n".join(printable(line) for line in message.split("\n"))
    typer.secho(f"Error: {lines}", fg=typer.colors.RED, err=True)
    sys.exit(code)
