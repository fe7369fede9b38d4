"""The part of an attached model that is ours: encoders, learned prefix vectors, and what was set aside."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from loope.attach import slots, specs
from loope.attach.adapter import Adapter, Branch, Slot
from loope.attach.hooks import AddToPatches, AddToPrefix, Attend, MixAfterBlock, Position, remove_hooks
from loope.core.errors import LoopeError
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
        self.taken: dict[str, tuple[Branch, Slot, slots.Taken]] = {}
        self.frozen: list[nn.Parameter] = []
        self.baked = False
        self.encoders = nn.ModuleList(nn.ModuleList(each) for each in encoders)
        self.prefixes = nn.ParameterDict()
        self.own = nn.Module()
        self.spec = spec

    def encoders_of(self, number: int) -> list[PositionalEncoder]:
        """The encoders of a branch."""
        encoders: list[PositionalEncoder] = list(self.encoders[number])  # type: ignore[call-overload]
        return encoders

    def set_aside(self) -> None:
        """Move the model's own encoding here, where nothing uses it; a table leaves zeros in its place."""
        names = {module: name for name, module in self.adapter.model.named_modules()}
        for branch in self.branches:
            for slot in branch.slots:
                if slot.value is None:
                    continue
                # The slot's name in the model, with slashes: a parameter's name may have no dots.
                key = "/".join((*names[slot.module].split("."), slot.attribute)).lstrip("/")
                value, taken = slots.take(slot, _zeros(branch) if slot is branch.table else None)
                slots.keep(self.own, key, value, taken)
                self.taken[key] = (branch, slot, taken)

    def restore(self) -> None:
        """Put it back, resampled if the model has another size now."""
        old = dict(zip(map(id, self.branches), self.own_grids, strict=True))
        # Last taken, first given back: each remembers the siblings that were there when it was taken.
        for key, (branch, slot, taken) in reversed(self.taken.items()):
            value = getattr(self.own, key)
            delattr(self.own, key)
            slots.give_back(slot, value, taken)
            if slot is branch.table:
                fit_table(branch, old[id(branch)])
        self.taken.clear()
        if any(branch.grid != old[id(branch)] for branch in self.branches):
            self.adapter.set_geometry(self.branches[0].pixels)

    def wire(self) -> None:
        """Put the hooks into the model."""
        for number, branch in enumerate(self.branches):
            encoders = self.encoders_of(number)
            additive = [encoder for encoder in encoders if "embed" in encoder.hooks()]
            branch.patch_embed.register_forward_hook(AddToPatches(branch, additive), prepend=True)
            if branch.name in self.prefixes and branch.entry is not None:
                branch.entry.register_forward_pre_hook(AddToPrefix(branch, self.prefixes, branch.name))
            for layer, (block, attention) in enumerate(zip(branch.blocks, branch.attentions, strict=True)):
                mixing = [encoder for encoder in encoders if "mix" in encoder.hooks() and encoder.mixes_after(layer)]
                if mixing:
                    block.register_forward_hook(MixAfterBlock(branch, layer, mixing), prepend=True)
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
            if branch.table is not None and any(slot is branch.table for _, slot, _ in self.taken.values()):
                slots.lay(branch.table, _zeros(branch))
            else:
                fit_table(branch, old)

    def get_extra_state(self) -> Tensor:
        """How it was attached, as bytes: part of every state dict, but no buffer that averaging could blur."""
        return specs.to_bytes(self.spec)

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse a checkpoint of another attachment, by name."""
        specs.require_same(self.spec, specs.from_bytes(state))


def fit_table(branch: Branch, old: Grid) -> None:
    """Resample the model's own table, if it is in its place, from `old` to the branch's grid."""
    if branch.table is None or branch.table.value is None or branch.grid == old:
        return
    table, count = branch.table.value, branch.table_prefix
    with torch.no_grad():
        moved = torch.cat((table[:, :count], resample(table[:, count:], old, branch.grid)), dim=1)
    trained = isinstance(table, nn.Parameter)
    setattr(*branch.table, nn.Parameter(moved, table.requires_grad) if trained else moved)


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
