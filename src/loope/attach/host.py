"""The model that something is attached to, as its hooks and its attachment see it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from loope.attach import slots
from loope.attach.adapter import Adapter, Branch, Slot
from loope.core.grid import Grid
from loope.encoders.resample import resample


@dataclass(eq=False)
class Host:
    """A model, its sequences of patch tokens, and what was taken from it.

    Attributes:
        adapter: the adapter of the model's family, which knows the model.
        branches: its sequences of patch tokens.
        own_grids: the grid of each branch when something was attached.
        taken: places of the model's own encoding that are empty now, by the name under which the attachment keeps it.
        frozen: parameters that `freeze_backbone` froze.
    """

    adapter: Adapter
    branches: list[Branch]
    own_grids: list[Grid]
    taken: dict[str, tuple[Branch, Slot, slots.Taken]] = field(default_factory=dict)
    frozen: list[nn.Parameter] = field(default_factory=list)

    def apply(self, step: str, *args: Any) -> Any:
        """Call `model.loope`, whatever module is there now: PEFT replaces it for `modules_to_save`."""
        return self.adapter.model.loope(step, *args)  # type: ignore[operator]

    def fit(self, grids: Sequence[Grid]) -> None:
        """Move the branches, and tables that are in the model, to other grids; what is set aside stays as it is."""
        for branch, grid in zip(self.branches, grids, strict=True):
            old, branch.grid = branch.grid, grid
            if branch.table is not None and any(slot is branch.table for _, slot, _ in self.taken.values()):
                slots.lay(branch.table, zeros_for(branch))
            else:
                fit_table(branch, old)

    def __deepcopy__(self, memo: dict[int, Any]) -> Host:
        """Copy along with the model. Where a part of the model is copied alone, the copy serves the same model."""
        if id(self.adapter.model) not in memo:
            return self
        memo[id(self)] = made = object.__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made


def zeros_for(branch: Branch) -> Tensor:
    """What stands in for the model's own table while it is set aside."""
    return slots.zeros_like_table(branch.patch_embed, branch.table_prefix + branch.grid.size, branch.dim)


def fit_table(branch: Branch, old: Grid) -> None:
    """Resample the model's own table, if it is in its place, from `old` to the branch's grid."""
    if branch.table is None or branch.table.value is None or branch.grid == old:
        return
    table, count = branch.table.value, branch.table_prefix
    with torch.no_grad():
        moved = torch.cat((table[:, :count], resample(table[:, count:], old, branch.grid)), dim=1)
    trained = isinstance(table, nn.Parameter)
    setattr(*branch.table, nn.Parameter(moved, table.requires_grad) if trained else moved)
