"""What the page offers: encoders with their options, orders, limits, and the words of Three-Cell."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loope.core.errors import LoopeError, require, unknown
from loope.core.grid import Grid
from loope.core.limits import MOST_CELLS_SHOWN
from loope.encoders import encoder_class
from loope.encoders.describe import describe
from loope.encoders.frequencies import SETS
from loope.encoders.sinusoid import PHASES
from loope.explorer.seeded import seeded
from loope.orders import list_orders
from loope.three_cell.bits import COLOURS, WORDS

MOST_DIM = 2048
GRIDS = ("7x7", "14x14", "7x28", "16x16", "24x24")
DIMS = (192, 384, 768)

# The options that change an untrained encoder's similarity; the others affect training only.
CHOICES: dict[str, Callable[[], list[str]]] = {
    "order": lambda: list_orders(),
    "frequencies": lambda: list(SETS),
    "phase": lambda: list(PHASES),
}
NUMBERS = ("gamma", "temperature", "base")


def options_of(name: str) -> dict[str, Any]:
    """Return the options that the page offers for an encoder, with their defaults."""
    parameters = inspect.signature(encoder_class(name)).parameters
    return {
        key: value.default
        for key, value in parameters.items()
        if key in CHOICES or (key in NUMBERS and isinstance(value.default, int | float))
    }


def read_options(name: str, given: dict[str, str]) -> dict[str, Any]:
    """Parse an encoder's options.

    Raises:
        LoopeError: if the encoder is unknown, an option is not offered, or a number is malformed.
    """
    offered = options_of(name)
    read: dict[str, Any] = {}
    for key, text in given.items():
        if key not in offered:
            raise unknown(f"option of {name!r} in the explorer:", key, offered)
        try:
            read[key] = text if key in CHOICES else type(offered[key])(text)
        except ValueError:
            raise LoopeError(f"The option {key!r} of {name!r} must be a number, got {text!r}.") from None
    return read


def check_size(grid: Grid, dim: int = 1) -> None:
    """Raise `LoopeError` if the page cannot show this size."""
    require(
        grid.size <= MOST_CELLS_SHOWN,
        f"The explorer shows grids of up to {MOST_CELLS_SHOWN} cells, got {grid}, with {grid.size}.",
    )
    require(1 <= dim <= MOST_DIM, f"The explorer takes widths from 1 to {MOST_DIM}, got {dim}.")


def catalog(
    model: dict[str, Any] | None, diagnosis: dict[str, Any], files: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return what the page needs before it draws.

    Args:
        model: describes the shipped model; None without a server.
        diagnosis: describes the shipped results and the built-in images of the Model view.
        files: describes the checkpoints named at the start.
    """
    with seeded():
        rows = describe(Grid(14, 14))
    return {
        "encoders": [
            {
                "name": row.name,
                "kind": row.kind,
                "paper": row.paper,
                "summary": row.summary,
                "options": [_option(key, default) for key, default in options_of(row.name).items()],
            }
            for row in rows
        ],
        "orders": list_orders(),
        "grids": list(GRIDS),
        "cells": MOST_CELLS_SHOWN,
        "dims": list(DIMS),
        "words": {task: {"".join(map(str, bits)): word for bits, word in each.items()} for task, each in WORDS.items()},
        "colours": list(COLOURS),
        "model": model,
        "diagnosis": diagnosis,
        "files": list(files),
        "free": True,  # any grid, width and file, which needs a server
    }


def _option(name: str, default: Any) -> dict[str, Any]:
    choices = CHOICES[name]() if name in CHOICES else None
    return {"name": name, "default": default, "choices": choices}
