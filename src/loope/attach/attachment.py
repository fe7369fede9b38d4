"""The part of an attached model that is ours: encoders, learned prefix vectors, and what was set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from loope.attach import slots, specs
from loope.attach.adapter import Adapter, Branch, Slot
from loope.attach.hooks import AddToPatches, AddToPrefix, Attend, MixAfterBlock, Position, remove_hooks
from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.encoders import PositionalEncoder
from loope.encoders.resample import resample


class Attachment(nn.Module):
    """Sits in the model as `model.loope`; how it was attached travels in the state dict as bytes.

    Args:
        adapter: the model's family.
        branches: its sequences of patch tokens.
        encoders: the encoders of each branch.
        spec: how it was attached, for checkpoints.
    """

    spec: Tensor

    def __init__(
        self,
        adapter: Adapter,
        branches: Sequence[Branch],
        encoders: Sequence[Sequence[PositionalEncoder]],
        spec: specs.Spec,
    ):
        super().__init__()
        # Plain attributes: the model's modules are not registered here a second time.
        self.adapter = adapter
        self.branches = list(branches)
        self.own_grids = [branch.grid for branch in branches]
        self.taken: dict[str, slots.Taken] = {}
        self.frozen: list[str] = []
        self.baked = False
        self.encoders = nn.ModuleList(nn.ModuleList(each) for each in encoders)
        self.prefixes = nn.ParameterDict()
        self.own = nn.Module()
        self.register_buffer("spec", specs.to_bytes(spec))

    def encoders_of(self, number: int) -> list[PositionalEncoder]:
        """The encoders of a branch."""
        encoders: list[PositionalEncoder] = list(self.encoders[number])  # type: ignore[call-overload]
        return encoders

    def set_aside(self) -> None:
        """Move the model's own encoding here, where nothing uses it; a table leaves zeros in its place."""
        for branch in self.branches:
            for slot in branch.slots:
                if slot.value is None:
                    continue
                key = self._key(slot)
                value, self.taken[key] = slots.take(slot, _zeros(branch) if slot is branch.table else None)
                (self.own.add_module if isinstance(value, nn.Module) else self.own.register_parameter)(key, value)  # type: ignore[arg-type]

    def restore(self) -> None:
        """Put it back, resampled if the model has another size now."""
        # Last taken, first given back: each remembers the siblings that were there when it was taken.
        for branch, old in reversed(list(zip(self.branches, self.own_grids, strict=True))):
            for slot in reversed(branch.slots):
                key = self._key(slot)
                if key in self.taken:
                    value = getattr(self.own, key)
                    delattr(self.own, key)
                    slots.give_back(slot, value, self.taken.pop(key))
                    if slot is branch.table:
                        fit_table(branch, old)
        if any(branch.grid != old for branch, old in zip(self.branches, self.own_grids, strict=True)):
            self.adapter.set_geometry(self.branches[0].pixels)

    def wire(self) -> None:
        """Put the hooks into the model."""
        for number, branch in enumerate(self.branches):
            encoders = self.encoders_of(number)
            additive = [encoder for encoder in encoders if "embed" in encoder.hooks()]
            branch.patch_embed.register_forward_hook(AddToPatches(branch, additive))
            if branch.name in self.prefixes and branch.entry is not None:
                branch.entry.register_forward_pre_hook(AddToPrefix(branch, self.prefixes, branch.name))
            for layer, (block, attention) in enumerate(zip(branch.blocks, branch.attentions, strict=True)):
                mixing = [encoder for encoder in encoders if "mix" in encoder.hooks() and encoder.mixes_after(layer)]
                if mixing:
                    block.register_forward_hook(MixAfterBlock(branch, layer, mixing))
                position = Position(branch, layer, encoders)
                if position.turning or position.biasing:
                    attention.forward = Attend(self.adapter, attention, position)

    def unwire(self) -> None:
        """Take them out again."""
        for module in self.adapter.model.modules():
            remove_hooks(module)

    def fit(self, grids: Sequence[Grid]) -> None:
        """Move encoders, and tables that are in the model, to other grids; what is set aside stays as it is."""
        for number, (branch, grid) in enumerate(zip(self.branches, grids, strict=True)):
            old, branch.grid = branch.grid, grid
            for encoder in self.encoders_of(number):
                encoder.resize(grid)
            if branch.table is not None and slots.holds_zeros(branch.table):
                slots.lay(branch.table, _zeros(branch))
            else:
                fit_table(branch, old)

    def _key(self, slot: Slot) -> str:
        """The slot's name in the model, with slashes: a parameter's name may have no dots."""
        names = {module: name for name, module in self.adapter.model.named_modules()}
        return "/".join((*names[slot.module].split("."), slot.attribute)).lstrip("/")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Refuse a checkpoint of another attachment, by name."""
        theirs = state_dict.get(f"{prefix}spec")
        if theirs is not None:
            wanted, came = specs.names(specs.from_bytes(self.spec)), specs.names(specs.from_bytes(theirs))
            require(
                wanted == came,
                f"The model has {wanted} attached, but the checkpoint was saved with {came}; attach {came} first, or "
                "use loope.load, which does.",
            )
            state_dict[f"{prefix}spec"] = self.spec  # the options may differ, and with them the number of bytes
        super()._load_from_state_dict(state_dict, prefix, *args)


def fit_table(branch: Branch, old: Grid) -> None:
    """Resample the model's own table, if it is in its place, from `old` to the branch's grid."""
    if branch.table is None or branch.table.value is None or branch.grid == old:
        return
    table, count = branch.table.value, branch.table_prefix
    with torch.no_grad():
        patches = resample(table[:, count:], old, branch.grid)
        moved = nn.Parameter(torch.cat((table[:, :count], patches), dim=1), table.requires_grad)
    setattr(branch.table.module, branch.table.attribute, moved)


def attachment_of(model: nn.Module) -> Attachment | None:
    """The model's attachment, if it has one."""
    found = getattr(model, "loope", None)
    return found if isinstance(found, Attachment) else None


def required_attachment(model: nn.Module) -> Attachment:
    """The model's attachment.

    Raises:
        LoopeError: if it has none.
    """
    found = attachment_of(model)
    if found is None:
        raise LoopeError(f"Nothing is attached to this {type(model).__name__}; call loope.attach(model, ...) first.")
    return found


def _zeros(branch: Branch) -> Tensor:
    return slots.zeros_like_table(branch.patch_embed, branch.table_prefix + branch.grid.size, branch.dim)
