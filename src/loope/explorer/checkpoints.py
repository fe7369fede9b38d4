"""What Compare shows of a checkpoint: its position encodings in use, and unused position tables."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, as_grid
from loope.explorer.numbers import read_whole
from loope.explorer.uploads import Weights
from loope.pesi_metric.position_table import position_table, set_aside, table_names
from loope.surgery.acting import attached
from loope.surgery.checkpoint import KEY

ACTS, ASIDE = "acts", "aside"


def contents(file: Weights, name: str) -> dict[str, object]:
    """List what can be compared, without building the model.

    Args:
        file: the checkpoint.
        name: its id in the explorer.

    Returns:
        `choices`: `[address, label, name of the table or None]`, those in use first. `grid`: a guess.

    Raises:
        LoopeError: if it has no position encoding.
    """
    spec, aside = attached(file.tensors, file.metadata), set_aside(file.tensors)
    if spec is None:
        return {"choices": [[f"file~{name}", "", None]], "grid": list(position_table(file.tensors).shape[:2])}
    acts: list[tuple[str, str | None]] = [(encoder, None) for encoder, _ in spec["encoders"]]
    if spec["keep_own"]:
        acts += [(table, table) for table in table_names(file.tensors)]
    choices = [[f"file~{name}~{ACTS}~{number}", *each] for number, each in enumerate(acts)]
    choices += [[f"file~{name}~{ASIDE}~{number}", f"{table}, set aside", table] for number, table in enumerate(aside)]
    return {"choices": choices, "grid": _grid(file, aside)}


def table(file: Weights, which: Sequence[str], grid: Grid) -> Tensor:
    """Return the `(h, w, D)` position table in use, or an unused one.

    Args:
        file: the checkpoint.
        which: empty, or "aside" and the table's number.
        grid: the grid of its patches.

    Raises:
        LoopeError: if the table does not exist.
    """
    if not which:
        return position_table(file.tensors, grid)
    aside = set_aside(file.tensors)
    require(
        len(which) == 2 and which[0] == ASIDE, f"A table is named by 'aside' and a number, got {'~'.join(which)!r}."
    )
    number = read_whole(which[1], "A table's number")
    require(number < len(aside), f"The file has {len(aside)} unused tables; choose it again.")
    return position_table(file.tensors, grid, aside[number])


def _grid(file: Weights, aside: list[str]) -> list[int] | None:
    """Return the grid of the first unused table that fits the shape of the model's images, or a square."""
    shape = _shape(file)
    for each in aside:
        table = file.tensors[each]
        times = math.isqrt(table.numel() // max((1, *table.shape[-1:])) // shape.size)
        try:
            return list(position_table(file.tensors, (times * shape.height, times * shape.width), each).shape[:2])
        except LoopeError:
            continue
    return None


def _shape(file: Weights) -> Grid:
    """Return the smallest grid with the shape of the model's images; 1x1 if the file does not tell their size."""
    try:
        height, width = as_grid(json.loads(file.metadata[KEY])["size"])
    except (LoopeError, KeyError, TypeError, ValueError):  # a file can contain anything
        return Grid(1, 1)
    common = math.gcd(height, width)
    return Grid(height // common, width // common)
