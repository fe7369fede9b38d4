"""What a checkpoint offers to Compare: what gives its tokens their position, and tables that are kept but not used."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from loope.attach.acting import attached
from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.explorer.numbers import read_whole
from loope.explorer.uploads import Weights
from loope.metrics.tables import position_table, set_aside, table_names

ACTS, ASIDE = "acts", "aside"


def contents(file: Weights, name: str) -> dict[str, object]:
    """What can be compared, found without building anything.

    Args:
        file: the checkpoint.
        name: what the explorer calls it.

    Returns:
        `choices`: `[address, what it is called, the table's name or None]`, what acts first. `grid`: a guess.

    Raises:
        LoopeError: if nothing in it gives tokens their position.
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
    """The `(h, w, D)` table in use, or one that was set aside.

    Args:
        file: the checkpoint.
        which: nothing, or "aside" and the table's number.
        grid: of its patches.

    Raises:
        LoopeError: if there is no such table.
    """
    if not which:
        return position_table(file.tensors, grid)
    aside = set_aside(file.tensors)
    require(len(which) == 2 and which[0] == ASIDE, f"A table is told by 'aside' and a number, got {'~'.join(which)!r}.")
    number = read_whole(which[1], "A table's number")
    require(number < len(aside), f"The file has {len(aside)} tables that are set aside; choose it again.")
    return position_table(file.tensors, grid, aside[number])


def _grid(file: Weights, aside: list[str]) -> list[int] | None:
    """The square grid of the model's own table, if there is one."""
    for each in aside:
        try:
            return list(position_table(file.tensors, name=each).shape[:2])
        except LoopeError:
            continue
    return None
