"""What the commands on experiments can be told: table, preset, rows, seeds, resources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loope.core.errors import require


def complete_table(incomplete: str) -> list[str]:
    """Names of tables that begin so."""
    from loope.experiments.table import table_names

    return [name for name in table_names() if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[str]:
    """Names of presets that begin so."""
    from loope.experiments.table import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


MOST_SEEDS = 1000
DIGITS = 9  # of seeds and resources
SETTLED = ("self", "on", "jobs", "address")  # of an executor, by other options
OUT = Path("out/experiments")
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="See `loope tables`.", autocompletion=complete_table)
]
PresetOption = Annotated[
    str,
    typer.Option(help="smoke (seconds), laptop (two cores) or paper (as published).", autocompletion=complete_preset),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(help="Rows, columns, models or encoders that fit, such as 'LOOPE*'; several may be given."),
]
EpochsOption = Annotated[
    int | None,
    typer.Option(help="Train for so many epochs instead of the preset's; these are other runs.", min=1, max=100_000),
]
SeedsOption = Annotated[str, typer.Option(help="Seeds, such as 0,1,2.")]
OutOption = Annotated[Path, typer.Option(help="Folder of all runs.")]


def read_seeds(text: str) -> list[int]:
    """Seeds written as `0,1,2`.

    Raises:
        LoopeError: if they are written otherwise.
    """
    parts = [part.strip() for part in text.split(",")]
    seeds = {int(part) for part in parts if _is_number(part)}
    require(
        len(seeds) == len(parts) <= MOST_SEEDS,
        f"Seeds are different whole numbers below {10**DIGITS:,}, up to {MOST_SEEDS}, with commas between them, got "
        f"{shorten(text)!r}; for example 0,1,2.",
    )
    return [int(part) for part in parts]


def read_resources(texts: list[str]) -> dict[str, str | int]:
    """`name=value` pairs; numbers are read as such.

    Raises:
        LoopeError: if one is written otherwise.
    """
    read: dict[str, str | int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        require(
            bool(equals) and name.isidentifier() and name not in SETTLED,
            f"A resource is written as NAME=VALUE, got {shorten(text)!r}; for example num_gpus=1. --on says where runs "
            "go, --jobs how many at a time.",
        )
        read[name] = int(value) if _is_number(value) else value
    return read


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS


def shorten(text: str) -> str:
    """The beginning of what was typed, for messages."""
    return text if len(text) <= 60 else f"{text[:60]}..."
