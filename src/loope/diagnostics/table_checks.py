"""Checks of an audit that compare tokens: what reaches which token, at which size."""

from __future__ import annotations

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.diagnostics.findings import Finding, apart
from loope.diagnostics.subject import Change, Subject
from loope.diagnostics.tokens import Watched
from loope.positions import Positions
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.control import use_positions
from loope.surgery.find import attachment_of

SAME = 1e-3  # relative difference of tokens below which they are the same
MOST = 0.7  # share of a change that must be in the right half of the grid
EARLY = 2  # compare tokens after so many blocks: later, rounding grows


def patches_in_order(subject: Subject) -> Finding | None:
    """Change the pixels of one patch: the token of that patch must change most."""
    watched, images = subject.at(), subject.images(count=1)
    before = watched.run(images).layers[0]
    for number in _some_cells(subject.grid):
        changed = _map(before, watched.run(_with_patch(images, subject.grid, number)).layers[0], subject.grid)
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
    together = _early(watched, images)
    alone = torch.cat([_early(watched, each[None]) for each in images])
    if apart(together, alone) < SAME:
        return None
    return Finding(
        "tokens of an image depend on the other images of its batch",
        "results change with the batch size",
        type(watched.model).__name__,
    )


def table_in_order(subject: Subject) -> Finding | None:
    """Change one row of the position table: the token of that patch, and no other, must change."""
    _require_table(subject)
    require(_grid_of_table(subject.branch) == subject.grid, "the table is for another grid, and resampled to this one")
    images = subject.images(count=1)
    before = subject.at().run(images).layers[0]
    for number in _some_cells(subject.grid):
        place = divmod(number, subject.grid.width)
        changed = _map(before, subject.at(change=_bump([place])).run(images).layers[0], subject.grid)
        if int(changed.argmax()) != number or float(changed.flatten()[number] / changed.sum()) < 1 - SAME:
            return Finding(
                f"the table's vector of patch {number} reaches token {int(changed.argmax())}",
                "positions are shifted: the last token of a row has the position of the next row, or of a prefix token",
                _table_name(subject),
            )
    return None


def table_resampled(subject: Subject) -> Finding | None:
    """Change the first and last row and column of the table: the same edge must change at a size that is not square."""
    _require_table(subject)
    grid, size = _grid_of_table(subject.branch), subject.pixels(1, 2)
    images = subject.images(size, 1)
    plain = subject.at(size).run(images)
    before, new = plain.layers[0], plain.grid
    rows, columns = range(grid.height), range(grid.width)
    edges = {
        "first row": ([(0, column) for column in columns], (0, 0)),
        "last row": ([(grid.height - 1, column) for column in columns], (0, 1)),
        "first column": ([(row, 0) for row in rows], (1, 0)),
        "last column": ([(row, grid.width - 1) for row in rows], (1, 1)),
    }
    for name, (places, (axis, half)) in edges.items():
        changed = _map(before, subject.at(size, _bump(places)).run(images).layers[0], new)
        inside, along = _half(changed, axis, half), _half(changed, 1 - axis, 0)
        if not (inside > MOST and 1 - MOST < along < MOST):
            return Finding(
                f"at {new} patches, the {name} of the {grid} table reaches tokens elsewhere: {inside:.0%} of the "
                f"change is in that half of the grid, {along:.0%} in the {'left' if axis == 0 else 'upper'} half",
                "at sizes other than the trained one, patches get positions of other places: height and width are "
                "swapped, or the table is cut instead of resampled",
                _table_name(subject),
            )
    return None


def shape_matters(subject: Subject) -> Finding | None:
    """Give the same sequence of patches as h x w and as h/2 x 2w: a model with positions must tell them apart."""
    require(subject.alone and subject.grid.height % 2 == 0, "the grid cannot be folded to half its height")
    patches = _patches(subject.images(count=1), subject.grid)
    flat = Grid(subject.grid.height // 2, subject.grid.width * 2)
    watched = subject.at()
    own = _early(watched, _joined(patches, subject.grid))
    turned = _early(watched, _joined(patches.flip(1), subject.grid)).flip(1)
    if apart(turned, own) < SAME:
        raise LoopeError("the model has no positions")
    other = _early(subject.at(subject.pixels(0.5, 2)), _joined(patches, flat))
    if apart(other, own) > SAME:
        return None
    return Finding(
        f"{flat} patches give the same tokens as {subject.grid}",
        "patches of a wide image get positions of a square one: only their number counts",
        _table_name(subject),
    )


def sizes_in_turn(subject: Subject) -> Finding | None:
    """Run two other sizes between two passes at the same size; nothing may depend on what ran before."""
    sizes = [subject.size, subject.pixels(1, 2)]
    if subject.grid.height % 2 == 0:
        sizes.insert(1, subject.pixels(0.5, 2))  # as many patches: caches by number would mix them up
    one = subject.at(sizes[-1], direct=True)
    fresh = [_early(_like(subject.at(size, direct=True), one), subject.images(size, 1)) for size in sizes]
    for size, wanted in [*zip(sizes, fresh, strict=True), *zip(sizes, fresh, strict=True)]:
        if apart(_early(one, subject.images(size, 1)), wanted) > SAME:
            return Finding(
                f"tokens at {size} pixels depend on the sizes that ran before",
                "results change with the order of the images: a cache is kept from another size",
                type(one.model).__name__,
            )
    return None


def positions_are_data(subject: Subject) -> Finding | None:
    """Transpose the grid of patches together with their positions: tokens must be the same in another layout."""
    watched = subject.at()
    attachment = attachment_of(watched.model)
    if attachment is None or not subject.alone:
        raise LoopeError("positions are data for attached encoders only")
    for encoder in attachment.encoders_of(0):
        require(
            "mix" not in encoder.hooks() and not ("embed" in encoder.hooks() and encoder.reads_content),
            f"{encoder.name!r} reads the image or its neighbours",
        )
    images, grid = subject.images(count=1), subject.grid
    order = torch.arange(grid.size).view(*grid).T.flatten()
    patches = _patches(images, grid)
    plain = _early(watched, images)
    with use_positions(watched.model, Positions((grid,)).take(order)):
        moved = _early(watched, _joined(patches[:, order], grid))
    if apart(moved, plain[:, order]) < SAME:
        return None
    return Finding(
        "patches in another order, with their positions, give other tokens",
        "cropped, packed or permuted patches get wrong positions",
        ", ".join(each.name for each in attachment.encoders_of(0)),
    )


def _early(watched: Watched, images: Tensor) -> Tensor:
    layers = watched.run(images).layers
    return layers[min(EARLY, len(layers) - 1)]


def _like(watched: Watched, other: Watched) -> Watched:
    watched.options = other.options  # the same way through the model at every size
    return watched


def _require_table(subject: Subject) -> None:
    require(
        any(isinstance(slot.value, Tensor) for slot in _tables(subject.at())),
        "the model's own encoding has no table that is in use",
    )


def _tables(watched: Watched) -> list[Slot]:
    attachment = attachment_of(watched.model)
    unused = attachment is not None and not attachment.spec["keep_own"]
    return [] if unused or watched.branch.table is None else [watched.branch.table]


def _bump(places: list[tuple[int, int]]) -> Change:
    """Return a change that adds one random vector to the table at some of its cells."""

    def change(watched: Watched) -> None:
        branch = watched.branch
        table: Tensor = branch.table.value.data  # type: ignore[union-attr]
        width = _grid_of_table(branch).width
        vector = torch.randn(table.shape[-1], generator=torch.Generator().manual_seed(1)).to(table) * 3
        for row, column in places:
            if table.dim() == 4:
                table[0, row, column] += vector
            elif table.dim() == 3:
                table[0, branch.table_prefix + row * width + column] += vector
            else:
                table[branch.table_prefix + row * width + column] += vector

    return change


def _grid_of_table(branch: Branch) -> Grid:
    return branch.table_grid or branch.grid


def _table_name(subject: Subject) -> str:
    table = subject.branch.table
    if table is None:
        return type(subject.branch.patch_embed).__name__
    return f"{type(table.module).__name__}.{table.attribute}"


def _some_cells(grid: Grid) -> list[int]:
    return sorted({0, grid.width - 1, grid.size // 2, grid.size - 1})


def _map(before: Tensor, after: Tensor, grid: Grid) -> Tensor:
    """Return how much each token of one image changed, `(h, w)`."""
    return (after - before)[0].square().sum(-1).view(*grid)


def _half(changed: Tensor, axis: int, half: int) -> float:
    """Return the share of a change in the first or second half of an axis; a middle row counts half."""
    side = changed.shape[axis]
    places = torch.arange(side).to(changed) + 0.5
    first = (side / 2 - places).sign() / 2 + 0.5
    share = float((changed.sum(1 - axis) * first).sum() / changed.sum().clamp(min=1e-20))
    return share if half == 0 else 1 - share


def _with_patch(images: Tensor, grid: Grid, number: int) -> Tensor:
    """Return images with other pixels in one patch."""
    changed = images.clone()
    row, column = divmod(number, grid.width)
    high, wide = images.shape[-2] // grid.height, images.shape[-1] // grid.width
    changed[..., row * high : (row + 1) * high, column * wide : (column + 1) * wide] *= -3
    return changed


def _patches(images: Tensor, grid: Grid) -> Tensor:
    """Cut images `(B, C, H, W)` into patches `(B, N, C, side, side)`."""
    high, wide = images.shape[-2] // grid.height, images.shape[-1] // grid.width
    cut = images.reshape(*images.shape[:2], grid.height, high, grid.width, wide)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def _joined(patches: Tensor, grid: Grid) -> Tensor:
    """Put patches `(B, N, C, side, side)` together."""
    rows = patches.reshape(len(patches), *grid, *patches.shape[2:])
    return rows.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
