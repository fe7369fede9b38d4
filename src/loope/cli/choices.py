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
    int | None, typer.Option(help="Train for so many epochs instead of the preset's; these are other runs.", min=1)
]
SeedsOption = Annotated[str, typer.Option(help="Seeds, such as 0,1,2.")]
OutOption = Annotated[Path, typer.Option(help="Folder of all runs.")]


def read_seeds(text: str) -> list[int]:
    """Seeds written as `0,1,2`.

    Raises:
        LoopeError: if they are written otherwise.
    """
    parts = [part.strip() for part in text.split(",")]
    require(
        all(part.isdigit() for part in parts) and len(set(parts)) == len(parts),
        f"Seeds are different whole numbers with commas between them, got {text!r}; for example 0,1,2.",
    )
    return [int(part) for part in parts]


def read_resources(texts: list[str]) -> dict[str, str | int]:
    """`name=value` pairs; numbers are read as such.

    Raises:
        LoopeError: if one is written otherwise.
    """
    for text in texts:
        require("=" in text, f"A resource is written as NAME=VALUE, got {text!r}; for example num_gpus=1.")
    pairs = (text.split("=", 1) for text in texts)
    return {name: int(value) if value.isdigit() else value for name, value in pairs}
