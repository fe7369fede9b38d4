"""`loope`: one tool, one file a command. Nothing heavy is imported before a command runs."""

import sys
from typing import Annotated

import typer

import loope
from loope.cli.demo import demo
from loope.cli.encoders import encoders
from loope.cli.order import order
from loope.cli.pesi import pesi
from loope.core.errors import LoopeError

app = typer.Typer(
    help="Positional encodings for vision transformers: see, compare and measure where patches are.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(order)
app.command()(encoders)
app.command()(pesi)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(loope.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it, exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks instead of messages.")] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """Run the command line; a user's mistake ends in a message and exit code 2, not in a traceback."""
    try:
        app()
    except LoopeError as error:
        if "--debug" in sys.argv:
            raise
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        sys.exit(2)
