"""Checks of an audit that compare tokens: what reaches which token, at which size."""

from __future__ import annotations

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.diagnostics.findings import SAME, Finding, apart
from loope.diagnostics.own_tables import bump_cell, bump_line, require_tables, table_grid, table_name
from loope.diagnostics.patches import changes, cut, early, joined, with_patch
from loope.diagnostics.subject import Subject
from loope.diagnostics.tokens import Watched

MOST = 0.7  # share of a change that must be in the right half of the grid


def patches_in_order(subject: Subject) -> Finding | None:
    """Change the pixels of one patch: the token of that patch must change most."""
    watched, images = subject.at(), subject.images(count=1)
    before = watched.run(images).layers[0]
    for number in _some_cells(subject.grid):
        changed = changes(before, watched.run(with_patch(images, subject.grid, number)).layers[0], subject.grid)
        if int(changed.argmax()) != number:
            return Finding(
                f"pixels of patch {number} change token {int(changed.argmax())} most",
                "every position is given to another patch",
                type(subject.branch.patch_embed).__name__,
            )
    return None


def batch_agrees(subject: Subject) -> Finding | None:
    """Run images together and one by one."""
    watched, images = subject.at(), subject.images(count=3)
    together = early(watched, images)
    alone = torch.cat([early(watched, each[None]) for each in images])
    if apart(together, alone) < SAME:
        return None
    return Finding(
        "tokens of an image depend on the other images of its batch",
        "results change with the batch size",
        type(watched.model).__name__,
    )


def table_in_order(subject: Subject) -> Finding | None:
    """Change the table's vector of a patch, or of a row or column: only their tokens must change."""
    axes = len(require_tables(subject)) == 2
    require(table_grid(subject.branch) == subject.grid, "the table is for another grid, and resampled to this one")
    grid, images = subject.grid, subject.images(count=1)
    before = subject.at().run(images).layers[0]
    cells = torch.arange(grid.size).view(*grid)
    if axes:
        parts = {
            f"{('row', 'column')[axis]} {number}": (bump_line(axis, number), cells.select(axis, number))
            for axis in (0, 1)
            for number in (0, grid[axis] // 2, grid[axis] - 1)
        }
    else:
        parts = {
            f"patch {number}": (bump_cell(*divmod(number, grid.width)), cells.flatten()[[number]])
            for number in _some_cells(grid)
        }
    for name, (change, wanted) in parts.items():
        changed = changes(before, subject.at(change=change).run(images).layers[0], grid).flatten()
        if float(changed[wanted].sum() / changed.sum().clamp(min=1e-20)) < 1 - SAME:
            most = divmod(int(changed.argmax()), grid.width)
            return Finding(
                f"the table's vector of {name} reaches tokens elsewhere, most of all the one in row {most[0]}, column "
                f"{most[1]}",
                "positions are shifted or swapped: the last token of a row has the position of the next row, or of a "
                "prefix token, or rows and columns are mixed up",
                table_name(subject),
            )
    return None


def table_resampled(subject: Subject) -> Finding | None:
    """Change the first and last row and column of the table: the same edge must change at a size that is not square."""
    require_tables(subject)
    grid, size = table_grid(subject.branch), subject.pixels(1, 2)
    images = subject.images(size, 1)
    plain = subject.at(size).run(images)
    before, new = plain.layers[0], plain.grid
    edges = {
        "first row": (0, 0, 0),
        "last row": (0, grid.height - 1, 1),
        "first column": (1, 0, 0),
        "last column": (1, grid.width - 1, 1),
    }
    if subject.branch.table_square:
        del edges["last row"]  # a wide image has the upper part of a square one's positions
    for name, (axis, number, half) in edges.items():
        changed = changes(before, subject.at(size, bump_line(axis, number)).run(images).layers[0], new)
        inside, along = _half(changed, axis, half), _half(changed, 1 - axis, 0)
        if not (inside > MOST and 1 - MOST < along < MOST):
            return Finding(
                f"at {new} patches, the {name} of the {grid} table reaches tokens elsewhere: {inside:.0%} of the "
                f"change is in that half of the grid, {along:.0%} in the {'left' if axis == 0 else 'upper'} half",
                "at sizes other than the trained one, patches get positions of other places: height and width are "
                "swapped, or the table is cut instead of resampled",
                table_name(subject),
            )
    return None


def shape_matters(subject: Subject) -> Finding | None:
    """Give the same sequence of patches as h x w and as h/2 x 2w: a model with positions must tell them apart."""
    require(subject.alone and subject.grid.height % 2 == 0, "the grid cannot be folded to half its height")
    patches = cut(subject.images(count=1), subject.grid)
    flat = Grid(subject.grid.height // 2, subject.grid.width * 2)
    watched = subject.at()
    own = early(watched, joined(patches, subject.grid))
    turned = early(watched, joined(patches.flip(1), subject.grid)).flip(1)
    if apart(turned, own) < SAME:
        raise LoopeError("the model has no positions")
    other = early(subject.at(subject.pixels(0.5, 2)), joined(patches, flat))
    if apart(other, own) > SAME:
        return None
    return Finding(
        f"{flat} patches give the same tokens as {subject.grid}",
        "patches of a wide image get positions of a square one: only their number counts",
        table_name(subject),
    )


def sizes_in_turn(subject: Subject) -> Finding | None:
    """Run two other sizes between two passes at the same size; nothing may depend on what ran before."""
    sizes = [subject.size, subject.pixels(1, 2)]
    if subject.grid.height % 2 == 0:
        sizes.insert(1, subject.pixels(0.5, 2))  # as many patches: caches by number would mix them up
    one = subject.at(sizes[-1], direct=True)
    fresh = [early(_like(subject.at(size, direct=True), one), subject.images(size, 1)) for size in sizes]
    for size, wanted in [*zip(sizes, fresh, strict=True), *zip(sizes, fresh, strict=True)]:
        if apart(early(one, subject.images(size, 1)), wanted) > SAME:
            return Finding(
                f"tokens at {size} pixels depend on the sizes that ran before",
                "results change with the order of the images: a cache is kept from another size",
                type(one.model).__name__,
            )
    return None


def _like(watched: Watched, other: Watched) -> Watched:
    watched.options = other.options  # the same way through the model at every size
    return watched


def _some_cells(grid: Grid) -> list[int]:
    return sorted({0, grid.width - 1, grid.size // 2, grid.size - 1})


def _half(changed: Tensor, axis: int, half: int) -> float:
    """Return the share of a change in the first or second half of an axis; a middle row counts half."""
    side = changed.shape[axis]
    places = torch.arange(side).to(changed) + 0.5
    first = (side / 2 - places).sign() / 2 + 0.5
    share = float((changed.sum(1 - axis) * first).sum() / changed.sum().clamp(min=1e-20))
    return share if half == 0 else 1 - share
