"""Checks of an audit that move patches and positions: transposed, padded, or packed into one row."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.diagnostics.findings import SAME, Finding, apart
from loope.diagnostics.own_tables import reorder, table_name, tables_in_use, transposition
from loope.diagnostics.patches import EARLY, changes, cut, joined, with_patch
from loope.diagnostics.subject import Subject
from loope.diagnostics.tokens import Watched
from loope.positions import Positions
from loope.surgery.control import use_positions
from loope.surgery.find import attachment_of
from loope.surgery.own import first_output

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


def positions_are_data(subject: Subject) -> Finding | None:
    """Transpose the grid of patches together with their positions: tokens must be the same in another layout."""
    plain = subject.at()
    attachment, grid = attachment_of(plain.model), subject.grid
    tables = tables_in_use(plain)
    require(subject.alone and bool(attachment or tables), "the model has no position table and no attached encoder")
    require(subject.branch.table_grid in (None, grid), "the table has another grid than the patches")
    _require_by_patch(subject)
    order = transposition(grid)
    images = subject.images(count=1)
    moved = subject.at(change=reorder(order, grid.height == grid.width))
    given = nullcontext() if attachment is None else use_positions(moved.model, Positions((grid,)).take(order))
    with given:
        after = moved.run(joined(cut(images, grid)[:, order], grid)).layers
    before = plain.run(images).layers
    last = EARLY if _by_token(plain) else 0
    number = min(last, len(before) - 1)
    if apart(after[number], before[number][:, order]) < SAME:
        return None
    return Finding(
        "patches in another order, with their positions, give other tokens",
        "cropped, packed or permuted patches get wrong positions: something else than the positions counts",
        _where(subject, plain),
    )


def padded_agrees(subject: Subject) -> Finding | None:
    """Give two images of different sizes in one batch, with padding: each must have the tokens that it has alone."""
    watched, images, sizes = _two_sizes(subject)
    if _takes_patches(watched):
        together = _tokens(watched, **_padded(watched, images, sizes))
        alone = [_alone(subject, image, size) for image, size in zip(images, sizes, strict=True)]
    else:
        positions = Positions.batch(sizes)
        together = _at(watched, images, positions)
        alone = [_at(watched, images[[row]], _row(positions, row)) for row in range(2)]
        if _hides(watched) and not _own_in_use(watched):  # what lies in the padding does not count
            alone[1] = _alone(subject, images[1], sizes[1])
    return _compared(subject, [each[None] for each in together], alone)


def packed_agrees(subject: Subject) -> Finding | None:
    """Give two images in one row of patches: each must have the tokens that it has alone."""
    watched, images, sizes = _two_sizes(subject)
    require(subject.branch.prefix == 0, "prefix tokens would belong to all images of a row")
    require(not _own_in_use(watched), "the model's own encoding is for one image in a row")
    if _takes_patches(watched):
        positions = Positions.packed(sizes)
        parts = [_cut(watched, image, size) for image, size in zip(images, sizes, strict=True)]
        given: dict[str, Any] = {"patches": torch.cat(parts, dim=1), "patch_coord": positions.coordinates.long()}
        given["patch_valid"] = torch.ones(1, positions.length, dtype=torch.bool)
        given["attn_mask"] = positions.visible()[:, None]  # type: ignore[index]
        with use_positions(watched.model, positions):
            together = _tokens(watched, **given)
    else:
        require(_hides(watched), "the model does not hide the images of a row from each other")
        half = Grid(subject.grid.height // 2, subject.grid.width)
        require(half.height * 2 == subject.grid.height, "the grid cannot be halved")
        sizes = (half, half)
        together = _at(watched, images[:1], Positions.packed(sizes))
        images = torch.cat(images[:1].chunk(2, dim=2))  # one lies above the other
    alone = [_alone(subject, image, size) for image, size in zip(images, sizes, strict=True)]
    return _compared(subject, torch.split(together, [size.size for size in sizes], dim=1), alone)


def _compared(subject: Subject, together: Sequence[Tensor], alone: Sequence[Tensor]) -> Finding | None:
    if all(apart(one[:, : other.shape[1]], other) < SAME for one, other in zip(together, alone, strict=True)):
        return None
    return Finding(
        "tokens of an image depend on the size of the other images, or on what pads or follows it",
        "results change with what images are batched or packed with: padding is seen, or all get the grid of one",
        _where(subject, subject.at()),
    )


def _two_sizes(subject: Subject) -> tuple[Watched, Tensor, tuple[Grid, Grid]]:
    """Return the model, two images, and the grids of which each shall have the upper part."""
    watched, grid = subject.at(), subject.grid
    require(
        subject.alone and (_takes_patches(watched) or attachment_of(watched.model) is not None),
        "the model takes whole grids only, and has no attached encoder that positions could be given to",
    )
    require(grid.height > 1, "a grid of one row has no smaller one")
    return watched, subject.images(count=2), (grid, Grid(grid.height // 2, grid.width))


def _alone(subject: Subject, image: Tensor, grid: Grid) -> Tensor:
    """Return the tokens of the upper part of an image, `(1, N, D)`."""
    size = Grid(grid.height * subject.branch.patch_size, grid.width * subject.branch.patch_size)
    watched = subject.at(size)
    layers = watched.run(image[None, :, : size.height]).layers
    return layers[min(EARLY, len(layers) - 1)]


def _at(watched: Watched, images: Tensor, positions: Positions) -> Tensor:
    with use_positions(watched.model, positions):
        return _tokens(watched, images)


def _tokens(watched: Watched, *args: Any, **kwargs: Any) -> Tensor:
    """Run the model on anything, and return the patch tokens after the first blocks, `(B, N, D)`."""
    kept: list[Tensor] = []
    blocks = watched.branch.blocks
    block = blocks[min(EARLY, len(blocks)) - 1]
    hook = block.register_forward_hook(lambda module, given, output: kept.append(first_output(output)))
    run = watched.model.forward_features if kwargs else watched.model  # timm's takes `attn_mask` there only
    try:
        run(*args, **kwargs)  # type: ignore[operator]
    except LoopeError:
        raise
    except Exception as error:
        raise LoopeError(f"the model cannot take them: {type(error).__name__}: {str(error)[:300]}") from error
    finally:
        hook.remove()
    return kept[0].flatten(1, -2)[:, watched.branch.prefix :]


def _takes_patches(watched: Watched) -> bool:
    """Return whether the model takes patches with coordinates, as timm's NaFlexVit does."""
    return "patch_coord" in inspect.signature(watched.model.forward).parameters


def _cut(watched: Watched, image: Tensor, grid: Grid) -> Tensor:
    """Return the patches of the upper part of an image as NaFlexVit takes them, `(1, N, values)`."""
    side = watched.branch.patch_size
    patches = cut(image[None, :, : grid.height * side], grid)
    last = getattr(watched.branch.patch_embed, "channels_last", True)
    return (patches.permute(0, 1, 3, 4, 2) if last else patches).flatten(2)


def _padded(watched: Watched, images: Tensor, sizes: Sequence[Grid]) -> dict[str, Tensor]:
    """Return images of several sizes as a batch of patches; padding has large values, which must not be seen."""
    positions, length = Positions.batch(sizes), max(size.size for size in sizes)
    parts = [_cut(watched, image, size) for image, size in zip(images, sizes, strict=True)]
    patches = torch.cat([F.pad(each, (0, 0, 0, length - each.shape[1]), value=3.0) for each in parts])
    assert positions.valid is not None  # noqa: S101  (for the type checker)
    return {"patches": patches, "patch_coord": positions.coordinates.long(), "patch_valid": positions.valid}


def _row(positions: Positions, row: int) -> Positions:
    """Return the positions of one image of a batch."""
    cells, valid = positions.cells, positions.valid
    assert cells is not None  # noqa: S101  (for the type checker)
    assert valid is not None  # noqa: S101
    return Positions((positions.grids[row],), cells=cells[[row]], valid=valid[[row]])


def _hides(watched: Watched) -> bool:
    """Return whether an attached encoder hides padding and other images in attention, as all biases do."""
    attachment = attachment_of(watched.model)
    return attachment is not None and any("bias" in each.hooks() for each in attachment.encoders_of(0))


def _own_in_use(watched: Watched) -> bool:
    attachment = attachment_of(watched.model)
    unused = attachment is not None and not attachment.spec["keep_own"]
    return not unused and any(slot.value is not None for slot in watched.branch.slots)


def _require_by_patch(subject: Subject) -> None:
    """Check that nothing reads several patches at once: a convolution before the blocks, or an encoder."""
    watched = subject.at()
    attachment = attachment_of(watched.model)
    for encoder in [] if attachment is None else attachment.encoders_of(0):
        require(
            "mix" not in encoder.hooks() and not ("embed" in encoder.hooks() and encoder.reads_content),
            f"{encoder.name!r} reads the image or its neighbours",
        )
    images, number = subject.images(count=1), subject.grid.size // 2
    before, after = (watched.run(each).layers[0] for each in (images, with_patch(images, subject.grid, number)))
    changed = changes(before, after, subject.grid).flatten()
    require(float(changed[number] / changed.sum()) > 1 - SAME, "tokens are not made of one patch each")


def _by_token(watched: Watched) -> bool:
    """Return whether blocks treat tokens alike wherever they are, but for what an attached encoder does."""
    branch = watched.branch
    # Tables beside a whole one are added after blocks.
    later = [*branch.own, *(branch.axis_tables if len(tables_in_use(watched)) == 1 else ())]
    own = _own_in_use(watched) and any(slot.value is not None for slot in later)
    mixing = any(isinstance(part, CONVOLUTIONS) for block in branch.blocks for part in block.modules())
    windows = any(watched.adapter.window(block) is not None for block in branch.blocks)
    return not (own or mixing or windows)


def _where(subject: Subject, watched: Watched) -> str:
    attachment = attachment_of(watched.model)
    if attachment is None:
        return table_name(subject)
    return ", ".join(each.name for each in attachment.encoders_of(0))
