"""Change a model's own position tables, to see what follows them: whole tables, or one for each axis."""

from __future__ import annotations

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.diagnostics.subject import Change, Subject
from loope.diagnostics.tokens import Watched
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.find import attachment_of


def tables_in_use(watched: Watched) -> list[Slot]:
    """Return the slot of the own position table, or those of rows and columns; empty if there is none in use."""
    branch, attachment = watched.branch, attachment_of(watched.model)
    if attachment is not None and not attachment.spec["keep_own"]:
        return []
    if branch.table is not None and isinstance(branch.table.value, Tensor):
        return [branch.table]
    axes = [slot for slot in branch.axis_tables if isinstance(slot.value, Tensor)]
    sides = [tuple(slot.value.shape[:-1]) for slot in axes]
    return axes if sides == [(1, side) for side in branch.grid] else []


def require_tables(subject: Subject) -> list[Slot]:
    """Return `tables_in_use`.

    Raises:
        LoopeError: if there is none.
    """
    found = tables_in_use(subject.at())
    require(bool(found), "the model's own encoding has no table that is in use")
    return found


def table_name(subject: Subject) -> str:
    """Return where the table is."""
    found = tables_in_use(subject.at())
    if not found:
        return type(subject.branch.patch_embed).__name__
    return f"{type(found[0].module).__name__}.{', '.join(slot.attribute for slot in found)}"


def table_grid(branch: Branch) -> Grid:
    """Return the grid of the table, which may be resampled to another one of the patches."""
    return branch.table_grid or branch.grid


def bump_cell(row: int, column: int) -> Change:
    """Return a change that adds a random vector to a whole table at a cell of its grid."""
    return lambda watched: _bump(watched, [row * table_grid(watched.branch).width + column])


def bump_line(axis: int, number: int) -> Change:
    """Return a change that adds a random vector to the positions of a row (axis 0) or column (axis 1)."""

    def change(watched: Watched) -> None:
        found = tables_in_use(watched)
        if len(found) == 2:
            table: Tensor = found[axis].value.data
            table[0, number] += _vector(table)
        else:
            grid = table_grid(watched.branch)
            cells = torch.arange(grid.size).view(*grid)
            _bump(watched, cells.select(axis, number).tolist())

    return change


def reorder(order: Tensor, transposed: bool) -> Change:
    """Return a change that puts the vectors of patches into another order.

    Args:
        order: `(N,)`, the cell whose vector each cell gets.
        transposed: whether that swaps the rows and columns of a square grid; tables for each axis allow nothing else.
    """

    def change(watched: Watched) -> None:
        found = tables_in_use(watched)
        if len(found) == 2:
            require(transposed, "rows and columns have a table each, and the grid is not square")
            rows, columns = (slot.value.data for slot in found)
            before = rows.clone()
            rows.copy_(columns)
            columns.copy_(before)
        elif found:
            patches = _patches_of(watched)
            patches.copy_(patches[order])

    return change


def transposition(grid: Grid) -> Tensor:
    """Return the cells of a grid, `(N,)`, column by column."""
    return torch.arange(grid.size).view(*grid).T.flatten()


def _bump(watched: Watched, cells: list[int]) -> None:
    patches = _patches_of(watched)
    patches[cells] += _vector(patches)


def _patches_of(watched: Watched) -> Tensor:
    """Return a view of the table's vectors of patches, `(N, D)`."""
    table: Tensor = tables_in_use(watched)[0].value.data
    first = 0 if table.dim() == 4 else watched.branch.table_prefix
    return table.view(-1, table.shape[-1])[first : first + table_grid(watched.branch).size]


def _vector(table: Tensor) -> Tensor:
    return torch.randn(table.shape[-1], generator=torch.Generator().manual_seed(1)).to(table) * 3
