"""The model's own position table at a strength other than 1."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.surgery.adapters.base import Branch
from loope.surgery.hooks import Hook


class ScaleOwnTable(Hook):
    """Before the patch embedding: puts the model's own position table, times its strength, in its place.

    The scaled table is an attribute of the instance, which is found before the parameter of the same name; so the
    parameter, the state dict and the optimizer stay as they are.
    """

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Set the table for this forward pass."""
        table = self.branch.table
        if table is not None:
            table.module.__dict__[table.attribute] = self.host.apply("scale_own", table.value)


class RestoreOwnTable(Hook):
    """Before the first block, when the table has been added, and after the model, even if it fails before."""

    def __call__(self, module: nn.Module, *args: Any) -> None:
        """Remove the scaled table."""
        show_own_table(self.branch)


def show_own_table(branch: Branch) -> None:
    """Remove the scaled table that hides the model's own, if there is one."""
    if branch.table is not None:
        module, name = branch.table
        if name in module._parameters or name in module._buffers:
            module.__dict__.pop(name, None)
