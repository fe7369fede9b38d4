"""A model to audit: copies with random weights, at any image size."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.diagnostics.tokens import Watched
from loope.surgery.adapters.base import adapter_for
from loope.surgery.attach import resize
from loope.surgery.find import unwrapped

Change = Callable[[Watched], None]


class Subject:
    """One branch of a model, as copies with random weights: wiring is judged, not weights.

    Weights that start from zero would hide faults, so that every copy gets the same random ones.

    Args:
        model: the model; it stays as it is.
        number: the branch.
    """

    def __init__(self, model: nn.Module, number: int):
        self._model = randomized(unwrapped(model))
        self.number = number
        watched = Watched(self._model, number)
        self.branch = watched.branch
        branches = watched.adapter.branches()
        self.alone = len(branches) == 1
        self.size = branches[0].pixels  # of the images; branches may see them scaled
        self.grid = self.branch.grid

    def at(self, size: Grid | None = None, change: Change | None = None, *, direct: bool = False) -> Watched:
        """Return a copy that takes images of `size`: as it is if it accepts them, else resized by `loope.resize`.

        Args:
            size: height and width in pixels; by default the model's own.
            change: what to do with the copy first.
            direct: raise a LoopeError rather than resize.
        """
        size = size or self.size
        made = self._copy(change)
        if size == self.size:
            return made
        options: list[dict[str, bool]] = [{}]
        if "interpolate_pos_encoding" in inspect.signature(made.model.forward).parameters:
            options.append({"interpolate_pos_encoding": True})
        for each in options:
            made.options = each
            try:
                made.run(self.images(size, 1))
            except LoopeError:
                made = self._copy(change)  # a failed pass may have left something behind
                continue
            made = self._copy(change)
            made.options = each
            return made
        if direct:
            raise LoopeError("the model takes images of one size only")
        resize(made.model, size)
        return Watched(made.model, self.number)

    def images(self, size: Grid | None = None, count: int = 2, seed: int = 0) -> Tensor:
        """Return random images."""
        draw = torch.Generator().manual_seed(seed)
        like = next(self.branch.patch_embed.parameters())
        return torch.randn(count, self._channels, *(size or self.size), generator=draw).to(like)

    def pixels(self, rows: float, columns: float) -> Grid:
        """Return the image size that has that many times the rows and columns of the model's own grid."""
        return Grid(round(self.size.height * rows), round(self.size.width * columns))

    @property
    def _channels(self) -> int:
        return adapter_for(self._model).branches()[0].channels

    def _copy(self, change: Change | None) -> Watched:
        made = Watched(copy.deepcopy(self._model), self.number)
        if change is not None:
            change(made)
        return made


def randomized(model: nn.Module) -> nn.Module:
    """Return a copy in eval mode, in float32, with random weights of a size that keeps activations moderate."""
    twin = copy.deepcopy(model).float().eval().requires_grad_(False)
    draw = torch.Generator().manual_seed(0)
    for parameter in twin.parameters():
        values = torch.randn(parameter.shape, generator=draw)
        if parameter.dim() > 1:
            values = values * (len(parameter) / max(1, parameter.numel())) ** 0.5
        else:  # norms, layer scales and shifts
            values = 0.5 + 0.1 * values
        parameter.data.copy_(values)
    for branch in adapter_for(twin).branches():
        for slot in branch.slots:
            if isinstance(slot.value, nn.Parameter):  # tables must be seen beside the content
                slot.value.data.copy_(torch.randn(slot.value.shape, generator=draw))
    return twin
