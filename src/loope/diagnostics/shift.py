"""How far tokens and answers move if positions or images are shifted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, as_size
from loope.diagnostics.tokens import Tokens, Watched, require_finite
from loope.positions import Positions
from loope.surgery.control import use_positions
from loope.surgery.find import attachment_of, unwrapped


class ShiftSensitivity(NamedTuple):
    """How far a model's tokens and answers move, for each shift.

    Attributes:
        cells: the shifts, in cells down and to the right.
        positions: `(shifts, layers)` float64, root mean square change of the tokens over that of the tokens, if
            positions are shifted and pixels stay. None if the model's own encoding cannot be shifted: rotary or bias.
        outputs: `(shifts,)`, the same of the model's output. None as `positions`.
        answers: `(shifts,)`, share of the images with the same largest output. None as `positions`.
        equivariance: `(shifts, layers)`, mean cosine of the tokens of an image and of the image shifted by whole
            patches, which wraps around, where both show the same and nothing was wrapped; 1 without positions.
        layers: name of each layer.
        images: number of images.
    """

    cells: list[int]
    positions: Tensor | None
    outputs: Tensor | None
    answers: Tensor | None
    equivariance: Tensor
    layers: list[str]
    images: int


def shift_sensitivity(
    model: nn.Module, images: Iterable[Any], *, cells: Sequence[int] = (1, 2, 4), branch: int = 0
) -> ShiftSensitivity:
    """Measure how far tokens and answers move if positions are shifted, or the image by whole patches.

    Positions are shifted as data: patch (r, c) is said to be at (r + k, c + k). Attached encoders see that beyond the
    border of the grid; in the model's own table, the last row and column are repeated. Rotary encoders feel a shift
    through class and register tokens only, which are not rotated.

    Args:
        model: a model that `loope.attach` supports, with or without encoders.
        images: batches `(B, C, H, W)`, or tuples that start with one.
        cells: the shifts k; those that leave no overlap are left out.
        branch: number of the sequence of patches, for models with several.

    Raises:
        LoopeError: if no shift fits the grid, there are no images, or tokens are dropped or not finite.

    Examples:
        >>> import timm, torch, loope
        >>> options = {"img_size": 64, "depth": 2, "class_token": False, "global_pool": "avg"}
        >>> model = timm.create_model("vit_tiny_patch16_224", **options)
        >>> model = loope.attach(model, "rope_axial")
        >>> found = loope.shift_sensitivity(model, [torch.rand(2, 3, 64, 64)], cells=[1])
        >>> bool(found.positions.max() < 1e-4)  # rotary scores depend on offsets only
        True
    """
    watched = Watched(model, branch)
    shifts = ShiftCollector(watched, cells)
    for batch in watched.batches(images):
        shifts.add(batch, watched.run(batch))
    return shifts.found()


class ShiftCollector:
    """Adds up how far tokens and answers move; it runs the model for every shift, but not without one.

    Args:
        watched: the model.
        cells: the shifts.
    """

    def __init__(self, watched: Watched, cells: Sequence[int] = (1, 2, 4)):
        self._watched = watched
        self._steps = sorted({as_size(each, "cells") for each in cells})
        self._total: list[Tensor] | None = None
        self.images = 0

    def add(self, batch: Tensor, plain: Tokens) -> None:
        """Add a batch of images, with the tokens that the model makes of it."""
        require_finite(plain.layers, self._watched.layer_names)
        self._kept = [each for each in self._steps if each < min(plain.grid)]
        require(
            bool(self._kept), f"Shifts must be below {min(plain.grid)}, for a grid of {plain.grid}, got {self._steps}."
        )
        here = _sums(self._watched, batch, plain, self._kept)
        before = self._total
        self._total = here if before is None else [one + more for one, more in zip(before, here, strict=True)]
        self.images += len(batch)

    def found(self) -> ShiftSensitivity:
        """Return the means over all images."""
        if self._total is None:
            raise LoopeError("There are no images: pass a list or loader of batches.")
        changed, norms, same, cosine = self._total
        possible = not bool(changed.isnan().any())
        return ShiftSensitivity(
            self._kept,
            (changed[:, :-1] / norms[:-1]).sqrt() if possible else None,
            (changed[:, -1] / norms[-1]).sqrt() if possible else None,
            same / self.images if possible else None,
            cosine / self.images,
            self._watched.layer_names,
            self.images,
        )


def _sums(watched: Watched, batch: Tensor, plain: Tokens, cells: list[int]) -> list[Tensor]:
    """Return squared changes `(shifts, layers + 1)`, squared norms, equal answers `(shifts,)` and cosines."""
    every = [*plain.layers, plain.output]
    changed, same, cosine = [], [], []
    for step in cells:
        with shifted(watched, plain.grid, step) as possible:
            if possible:
                moved = watched.run(batch)
                pairs = zip(every, [*moved.layers, moved.output], strict=True)
                changed.append(torch.stack([(one - other).double().square().sum() for one, other in pairs]))
                answers = [each.flatten(1).argmax(-1) for each in (plain.output, moved.output)]
                same.append((answers[0] == answers[1]).sum().double())
            else:
                changed.append(torch.full((len(every),), torch.nan, dtype=torch.float64))
                same.append(torch.tensor(0.0, dtype=torch.float64))
        pixels = [step * watched.branch.patch_size * batch.shape[axis] // plain.images.shape[axis] for axis in (2, 3)]
        rolled = watched.run(batch.roll(pixels, (2, 3)))
        cosine.append(
            torch.stack(
                [_cosine(one, other, plain.grid, step) for one, other in zip(plain.layers, rolled.layers, strict=True)]
            )
        )
    norms = torch.stack([each.double().square().sum() for each in every])
    return [each.cpu() for each in (torch.stack(changed), norms, torch.stack(same), torch.stack(cosine))]


def _cosine(plain: Tensor, rolled: Tensor, grid: Grid, step: int) -> Tensor:
    """Return the sum over images of the mean cosine where both show the same patch."""
    one = plain.reshape(len(plain), *grid, -1)[:, :-step, :-step].double()
    other = rolled.reshape(len(rolled), *grid, -1)[:, step:, step:].double()
    return F.cosine_similarity(one, other, dim=-1).flatten(1).mean(1).sum()


@contextmanager
def shifted(watched: Watched, grid: Grid, step: int) -> Iterator[bool]:
    """Shift the positions of a model for a while; yields whether that is possible."""
    inner = unwrapped(watched.model)
    branch = watched.branch
    tables = [slot.value for slot in branch.tables if slot.value is not None]
    if attachment_of(inner) is not None:
        with use_positions(inner, Positions((grid,)).shift(step, step)):
            yield True
    elif (
        any(slot.value is not None for slot in branch.own)
        or len(tables) != 1
        or {grid} != {branch.grid, branch.table_grid or grid}
    ):
        yield False
    else:
        table, start = tables[0], branch.table_prefix if tables[0].dim() == 3 else 0
        patches = table.data[:, start : start + grid.size] if table.dim() == 3 else table.data
        before = patches.clone()
        rows, columns = ((torch.arange(side) + step).clamp(max=side - 1).to(table.device) for side in grid)
        laid = before.reshape(1, *grid, -1)[:, rows][:, :, columns]
        try:
            patches.copy_(laid.reshape(before.shape))
            yield True
        finally:
            patches.copy_(before)
