"""The model's own position tables at a strength other than 1."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.surgery.adapters.branch import Branch
from loope.surgery.hooks import Hook


class ScaleOwnTables(Hook):
    """Before the patch embedding: puts the model's own position tables, times their strength, in their place.

    A scaled table is an attribute of the instance, which is found before the parameter of the same name; so the
    parameter, the state dict and the optimizer stay as they are.
    """

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Set the tables for this forward pass."""
        for table in self.branch.tables:
            if table.value is not None:
                table.module.__dict__[table.attribute] = self.host.apply("scale_own", table.value)


class RestoreOwnTables(Hook):
    """Before the first block, when tables have been added, and after the model, even if it fails before."""

    def __call__(self, module: nn.Module, *args: Any) -> None:
        """Remove the scaled tables."""
        show_own_tables(self.branch)


def show_own_tables(branch: Branch) -> None:
    """Remove the scaled tables that hide the model's own, if there are any."""
    for module, name, _ in branch.tables:
        if name in module._parameters or name in module._buffers:
            module.__dict__.pop(name, None)
