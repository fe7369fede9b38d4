"""The model that encoders are attached to, and its own encoding, taken out and put back."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.encoders.resample import resample
from loope.surgery.adapters.base import Adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.own import Moved
from loope.surgery.place import Place


class Idle(nn.Parameter):
    """An unused parameter that ignores `requires_grad_`.

    PEFT calls it on all of `modules_to_save`, and DDP rejects trainable parameters that are unused.
    """

    def requires_grad_(self, requires_grad: bool = True) -> Idle:
        return self


@dataclass
class Taken:
    """How to restore the value of a slot.

    Attributes:
        trainable: whether each parameter required gradients.
        order: names of the siblings, to restore the order of the state dict.
        persistent: whether it was in the state dict.
    """

    trainable: list[bool]
    order: list[str]
    persistent: bool


@dataclass(eq=False)
class Host:
    """A model, its branches, and the parts of its own encoding that were taken out.

    Attributes:
        adapter: the model's adapter.
        branches: the model's sequences of patch tokens.
        own_grids: the grid of each branch at the time of `attach`.
        taken: slots that were emptied, by the name under which the attachment stores their value.
        frozen: parameters that `freeze_backbone` froze.
        note: a note on the initial accuracy, for the report.
        explained: share of the own table's variance that each branch's encoder explains, if it was fitted.
        moved: how far the output moved on the images that `attach` was given.
        places: where the patches of each branch are in the current forward pass.
    """

    adapter: Adapter
    branches: list[Branch]
    own_grids: list[Grid]
    taken: dict[str, tuple[Branch, Slot, Taken]] = field(default_factory=dict)
    frozen: list[nn.Parameter] = field(default_factory=list)
    note: str | None = None
    explained: list[float] = field(default_factory=list)
    moved: Moved | None = None
    places: list[Place] = field(default_factory=list)

    def apply(self, step: str, *args: Any) -> Any:
        """Call `model.loope`, which may be a wrapper: PEFT replaces it for `modules_to_save`."""
        return self.adapter.model.loope(step, *args)  # type: ignore[operator]

    def fit(self, grids: Sequence[Grid]) -> None:
        """Move the branches and the tables in use to other grids; unused tables stay as they are."""
        self.places = [Place.of(grid, len(place.positions)) for place, grid in zip(self.places, grids, strict=True)]
        for branch, grid in zip(self.branches, grids, strict=True):
            old, branch.grid = branch.grid, grid
            if branch.table is not None and any(slot is branch.table for _, slot, _ in self.taken.values()):
                lay(branch.table, zeros_for(branch))
            else:
                fit_table(branch, old)

    def __deepcopy__(self, memo: dict[int, Any]) -> Host:
        """Copy along with the model; if only a part of the model is copied, keep serving the same model."""
        if id(self.adapter.model) not in memo:
            return self
        memo[id(self)] = made = object.__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made


def zeros_for(branch: Branch) -> Tensor:
    """Return the zeros that replace the model's own table while it is unused."""
    grid = branch.table_grid or branch.grid
    zeros = zeros_like_table(branch.patch_embed, branch.table_prefix + grid.size + branch.suffix, branch.dim)
    dims = 3 if branch.table is None else branch.table.value.dim()
    return zeros[0] if dims == 2 else zeros.view(1, *grid, branch.dim) if dims == 4 else zeros


def fit_table(branch: Branch, old: Grid) -> None:
    """Resample the model's own table, if it is in use, from `old` to the branch's grid."""
    if branch.table is None or branch.table.value is None or branch.table_grid is not None or branch.grid == old:
        return
    table, count = branch.table.value, branch.table_prefix
    with torch.no_grad():
        if table.dim() == 4:
            moved = resample(table.flatten(1, 2), old, branch.grid).view(1, *branch.grid, -1)
        else:
            before, patches, after = table.split((count, old.size, branch.suffix), dim=-2)
            moved = torch.cat((before, resample(patches, old, branch.grid), after), dim=-2)
    trained = isinstance(table, nn.Parameter)
    setattr(branch.table.module, branch.table.attribute, nn.Parameter(moved, table.requires_grad) if trained else moved)


def take(slot: Slot, off: nn.Module | Tensor | None) -> tuple[nn.Module | Tensor, Taken]:
    """Take the value out of a slot and leave `off`: a module, a tensor outside the state dict, or None."""
    module, name = slot.module, slot.attribute
    value = slot.value
    home = _home(module, value)
    if name not in home:
        raise LoopeError(f"`{name}` of {type(module).__name__} is no parameter, buffer or module; register it as one.")
    trainable = [parameter.requires_grad for parameter in _parameters(value)]
    taken = Taken(trainable, list(home), name not in module._non_persistent_buffers_set)
    for parameter in _parameters(value):
        parameter.requires_grad_(False)
        if type(parameter) is nn.Parameter:
            parameter.__class__ = Idle  # in place, so that references to the parameter stay valid
    if off is None or isinstance(off, nn.Module):
        home[name] = off
    else:
        del home[name]
        lay(slot, off)
    return value, taken


def keep(own: nn.Module, key: str, value: nn.Module | Tensor, taken: Taken) -> None:
    """Register a taken value in the module that stores it."""
    if isinstance(value, nn.Module):
        own.add_module(key, value)
    elif isinstance(value, nn.Parameter):
        own.register_parameter(key, value)
    else:
        own.register_buffer(key, value, persistent=taken.persistent)


def lay(slot: Slot, zeros: Tensor) -> None:
    """Put `zeros` into the slot, as a buffer outside the state dict."""
    slot.module.register_buffer(slot.attribute, zeros, persistent=False)


def give_back(slot: Slot, value: nn.Module | Tensor, taken: Taken) -> None:
    """Restore a taken value, its `requires_grad` and its position among its siblings."""
    module, name = slot.module, slot.attribute
    module._buffers.pop(name, None)
    module._non_persistent_buffers_set.discard(name)
    for parameter, trainable in zip(_parameters(value), taken.trainable, strict=True):
        if isinstance(parameter, Idle):
            parameter.__class__ = nn.Parameter  # type: ignore[assignment]
        parameter.requires_grad_(trainable)
    home = _home(module, value)
    home[name] = value
    if not taken.persistent:
        module._non_persistent_buffers_set.add(name)
    siblings = {key: home[key] for key in (*taken.order, *home) if key in home}
    home.clear()
    home.update(siblings)


def zeros_like_table(like: nn.Module, rows: int, dim: int) -> Tensor:
    """Return `(1, rows, dim)` zeros with the device and dtype of a module's parameters."""
    parameter = next(like.parameters())
    return torch.zeros(1, rows, dim, device=parameter.device, dtype=parameter.dtype)


def _home(module: nn.Module, value: object) -> dict[str, object]:
    if isinstance(value, nn.Module):
        return module._modules  # type: ignore[return-value]
    return module._parameters if isinstance(value, nn.Parameter) else module._buffers  # type: ignore[return-value]


def _parameters(value: nn.Module | Tensor) -> list[nn.Parameter]:
    if isinstance(value, nn.Module):
        return list(value.parameters())
    return [value] if isinstance(value, nn.Parameter) else []
