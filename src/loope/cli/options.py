"""Options that several commands share, and the functions that parse their values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from loope.core.errors import LoopeError, require, shown
from loope.core.grid import Grid, as_grid
from loope.core.packages import require_packages

if TYPE_CHECKING:
    from loope.lab.experiments.table import Table

MOST_SEED = 2**63 - 1  # torch's limit
MOST_SEEDS = 1000
MOST_JOBS = 1024
MOST_DIGITS = 9  # of a seed or a resource
MOST_CHARACTERS = 200  # of an option
RESERVED = ("self", "on", "jobs", "address")  # executor arguments that other options set
OUT = Path("out/experiments")


def complete_table(incomplete: str) -> list[str]:
    """Return the tables whose name starts with `incomplete`."""
    from loope.lab.experiments.table import table_names

    return [name for name in table_names() if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[str]:
    """Return the presets whose name starts with `incomplete`."""
    from loope.lab.experiments.table import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A table of `loope tables`.", autocompletion=complete_table)
]
PresetOption = Annotated[
    str,
    typer.Option(help="smoke (seconds), laptop (two cores) or paper (as published).", autocompletion=complete_preset),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(help="Select rows, columns, models or encoders by pattern, such as 'LOOPE*'. Repeatable."),
]
EpochsOption = Annotated[
    int | None,
    typer.Option(help="Override the preset's number of epochs. Such runs are stored separately.", min=1, max=100_000),
]
ClassesOption = Annotated[
    Path | None,
    typer.Option(help="File with the 100 classes of ImageNet-100, one per line. Such runs are stored separately."),
]
SkipBadImagesOption = Annotated[
    bool,
    typer.Option("--skip-bad-images", help="Skip and count unreadable images. Such runs are stored separately."),
]
SeedsOption = Annotated[str, typer.Option(help="Comma-separated seeds, such as 0,1,2.")]
OutOption = Annotated[Path, typer.Option(help="Folder of all runs.")]


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """Show a spinner on stderr, which leaves stdout to scripts."""
    with Console(stderr=True).status(f"{doing} ..."):
        yield


def require_drawing(path: Path) -> None:
    """Check that a drawing can be written, before computing what it shows.

    Raises:
        LoopeError: if the file is not a PNG, or matplotlib is missing.
    """
    require(
        path.suffix == ".png",
        f"Drawings are PNG files; name {path.with_suffix('.png') if path.name else 'orders.png'} instead of "
        f"{str(path)!r}.",
    )
    require_packages("A drawing", "plots", "matplotlib")


def read_grid(text: str) -> Grid:
    """Parse a grid, such as `14x14` or `14`.

    Raises:
        LoopeError: if it is malformed.
    """
    match = re.fullmatch(r"([0-9]{1,10})(?:x([0-9]{1,10}))?", text)
    if match is None:
        raise LoopeError(f"A grid is written as HEIGHTxWIDTH, got {text!r}; for example 14x14 or 7x28.")
    return as_grid((int(match[1]), int(match[2] or match[1])))


def read_table(name: str, epochs: int | None, classes: Path | None, skip_bad_images: bool) -> Table:
    """Return a table with the options that change its runs.

    Raises:
        LoopeError: for an unknown table, or an invalid class list.
    """
    from loope.lab.experiments.table import get_table

    names = None
    if classes is not None:
        from loope.lab.data.folders import read_class_list

        names = read_class_list(classes)
        require(len(names) == 100, f"ImageNet-100 has 100 classes, got {len(names)} in {str(classes)!r}.")
    return get_table(name).with_epochs(epochs).with_images(names, skip_bad_images)


def read_seeds(text: str) -> list[int]:
    """Parse seeds, such as `0,1,2`.

    Raises:
        LoopeError: if they are malformed, repeated or too many.
    """
    parts = [part.strip() for part in text.split(",")]
    seeds = {int(part) for part in parts if _is_number(part)}
    require(
        len(seeds) == len(parts) <= MOST_SEEDS,
        f"Seeds are different whole numbers below {10**MOST_DIGITS:,}, up to {MOST_SEEDS}, separated by commas, got "
        f"{shown(text)}; for example 0,1,2.",
    )
    return [int(part) for part in parts]


def read_resources(texts: list[str]) -> dict[str, str | int]:
    """Parse `NAME=VALUE` pairs; digits become numbers.

    Raises:
        LoopeError: if a pair is malformed, or another option sets its name.
    """
    resources: dict[str, str | int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        require(
            bool(equals) and name.isidentifier() and name not in RESERVED,
            f"A resource is written as NAME=VALUE, got {shown(text)}; for example num_gpus=1. Use --on to choose "
            "where runs execute and --jobs for how many at a time.",
        )
        resources[name] = int(value) if _is_number(value) else value
    return resources


def read_encoder_options(texts: list[str]) -> dict[str, object]:
    """Parse `NAME=VALUE` pairs of an encoder's options; Python's literals become values, anything else is text.

    Raises:
        LoopeError: if a pair is malformed, or a name is given twice.
    """
    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        require(
            bool(equals) and name.isidentifier() and len(value) <= MOST_CHARACTERS,
            f"An option is written as NAME=VALUE, got {shown(text)}; for example temperature=100.",
        )
        require(name not in options, f"The option {shown(name)} is given twice.")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    return options


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
