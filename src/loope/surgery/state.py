"""The part of an attached model that is ours: encoders, learned prefix vectors, and what was set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, require, told
from loope.core.grid import Grid
from loope.encoders import PositionalEncoder
from loope.surgery import slots, specs
from loope.surgery.adapters.base import Branch
from loope.surgery.hooks import AddToPatches, AddToPrefix, Attend, MixAfterBlock, Position, remove_hooks
from loope.surgery.host import Host, fit_table, zeros_for

T = TypeVar("T")
# How the names of our weights begin, and among them those of the model's own encoding.
OURS, OWN = "loope.", "loope.own."
# An empty buffer whose name is a message: torch lists it among the unexpected keys when a state dict with an encoder in
# it is loaded into a model without one, and nothing else of ours has a say there.
HINT = "read_with_loope_load_or_call_loope_attach_first"


class Attachment(nn.Module):
    """Sits in the model as `model.loope`; how it was attached travels in the state dict as bytes.

    Args:
        host: the model that it is attached to.
        encoders: the encoders of each branch.
        spec: how it was attached, for checkpoints.
    """

    def __init__(self, host: Host, encoders: Sequence[Sequence[PositionalEncoder]], spec: specs.Spec):
        super().__init__()
        self.host = host  # a plain attribute: the model's modules are not registered here a second time
        self.baked = False
        self.encoders = nn.ModuleList(nn.ModuleList(each) for each in encoders)
        self.prefixes = nn.ParameterDict()
        self.own = nn.Module()
        self.spec = spec
        self.register_buffer(HINT, torch.empty(0))

    @property
    def branches(self) -> list[Branch]:
        """The model's sequences of patch tokens."""
        return self.host.branches

    @property
    def own_size(self) -> Grid:
        """The size of images, in pixels, that the model's own encoding is for."""
        branch = self.branches[0]
        own = branch.grid if self.spec["keep_own"] else self.host.own_grids[0]
        return Grid(own.height * branch.patch_size, own.width * branch.patch_size)

    @property
    def acting(self) -> Attachment:
        """Itself; wrappers that pass attributes on give the attachment that acts."""
        return self

    def encoders_of(self, number: int, hook: str | None = None) -> list[PositionalEncoder]:
        """The encoders of a branch, or those of them that implement a hook."""
        encoders: list[PositionalEncoder] = list(self.encoders[number])  # type: ignore[call-overload]
        return encoders if hook is None else [encoder for encoder in encoders if hook in encoder.hooks()]

    def forward(self, step: str, number: int, *args: Any) -> Any:
        """Take one of the steps below for a branch.

        The model's hooks call the module, not the step, so that a wrapper around the module decides which one acts.
        """
        return getattr(self, step)(number, *args)

    def add_to_patches(self, number: int, tokens: Tensor, images: Tensor, grid: Grid) -> Tensor:
        """Add what the additive encoders make of the images to `tokens` `(B, N, D)` or `(B, h, w, D)`."""
        encoders, side = self.encoders_of(number, "embed"), self.branches[number].patch_size
        missing = [grid[axis] * side - images.shape[axis - 2] for axis in (0, 1)]
        if encoders and any(missing):
            images = F.pad(images, (0, missing[1], 0, missing[0]))
        for encoder in encoders:
            tokens = tokens + encoder.embed(images, grid).view(-1, *tokens.shape[1:])
        return tokens

    def add_to_prefix(self, number: int, prefix: Tensor) -> Tensor:
        """Add the learned vectors to the prefix tokens `(B, P, D)`."""
        vectors: Tensor = self.prefixes[self.branches[number].name]
        return prefix + vectors

    def mix(self, number: int, patches: Tensor, grid: Grid, layer: int) -> Tensor:
        """Let the conditional encoders transform the patch tokens `(B, N, D)` after a block."""
        for encoder in self.encoders_of(number, "mix"):
            if encoder.mixes_after(layer):
                patches = encoder.mix(patches, grid, layer)
        return patches

    def bias(self, number: int, q: Tensor, grid: Grid, layer: int) -> Tensor:
        """The sum of the biases for queries `(B, heads, N, d)` of patches."""
        first, *others = self.encoders_of(number, "bias")
        total = first.bias(q, grid, layer)
        for encoder in others:
            total = total + encoder.bias(q, grid, layer)
        return total

    def rotate(self, number: int, q: Tensor, k: Tensor, grid: Grid, layer: int) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys `(B, heads, N, d)` of patches."""
        for encoder in self.encoders_of(number, "rotate"):
            q, k = encoder.rotate(q, k, grid, layer)
        return q, k

    def set_aside(self) -> None:
        """Move the model's own encoding here, where nothing uses it; a table leaves zeros in its place."""
        names = {module: name for name, module in self.host.adapter.model.named_modules()}
        for branch in self.branches:
            for slot in branch.slots:
                if slot.value is None:
                    continue
                # The slot's name in the model, with slashes: a parameter's name may have no dots.
                key = "/".join((*names[slot.module].split("."), slot.attribute)).lstrip("/")
                value, taken = slots.take(slot, zeros_for(branch) if slot is branch.table else None)
                slots.keep(self.own, key, value, taken)
                self.host.taken[key] = (branch, slot, taken)

    def restore(self) -> None:
        """Put it back, resampled if the model has another size now."""
        host = self.host
        old = dict(zip(map(id, self.branches), host.own_grids, strict=True))
        # Last taken, first given back: each remembers the siblings that were there when it was taken.
        for key, (branch, slot, taken) in reversed(host.taken.items()):
            value = getattr(self.own, key)
            delattr(self.own, key)
            slots.give_back(slot, value, taken)
            if slot is branch.table:
                fit_table(branch, old[id(branch)])
        host.taken.clear()
        if any(branch.grid != old[id(branch)] for branch in self.branches):
            host.adapter.set_geometry(self.branches[0].pixels)

    def wire(self) -> None:
        """Put the hooks into the model."""
        host = self.host
        for number, branch in enumerate(self.branches):
            branch.patch_embed.register_forward_hook(AddToPatches(host, number), prepend=True)
            if branch.name in self.prefixes and branch.entry is not None:
                branch.entry.register_forward_pre_hook(AddToPrefix(host, number))
            mixing = self.encoders_of(number, "mix")
            rotates, biases = (bool(self.encoders_of(number, hook)) for hook in ("rotate", "bias"))
            for layer, (block, attention) in enumerate(zip(branch.blocks, branch.attentions, strict=True)):
                if any(encoder.mixes_after(layer) for encoder in mixing):
                    block.register_forward_hook(MixAfterBlock(host, number, layer), prepend=True)
                if rotates or biases:
                    attention.forward = Attend(attention, Position(host, number, layer, rotates, biases))

    def unwire(self) -> None:
        """Take them out again."""
        for module in self.host.adapter.model.modules():
            remove_hooks(module)

    def fit(self, grids: Sequence[Grid]) -> None:
        """Move the encoders to other grids."""
        for number, grid in enumerate(grids):
            for encoder in self.encoders_of(number):
                encoder.resize(grid)

    def get_extra_state(self) -> Tensor:
        """How it was attached, as bytes: part of every state dict, but no buffer that averaging could blur."""
        return specs.to_bytes({**self.spec, "own_size": list(self.own_size)})

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse a checkpoint of another attachment, by name."""
        specs.require_same(self.spec, specs.from_bytes(state))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.setdefault(prefix + HINT, getattr(self, HINT))  # older files do not have it
        super()._load_from_state_dict(state_dict, prefix, *args)


def as_if_detached(named: dict[str, T]) -> dict[str, T]:
    """A state dict, or what else goes by its names, with what was set aside at its old place and nothing of ours."""
    back = {name.removeprefix(OWN).replace("/", ".") if name.startswith(OWN) else name: named[name] for name in named}
    return {name: value for name, value in back.items() if not name.startswith(OURS)}


def attachment_of(model: nn.Module) -> Attachment | None:
    """The attachment that acts in the model, if it has one; not that of a model inside it."""
    found = getattr(model._modules.get("loope"), "acting", None)
    return found if isinstance(found, Attachment) else None


def all_attachments(model: nn.Module) -> list[Attachment]:
    """The model's attachment, and the copies of it that a wrapper in its place keeps."""
    return [module for module in model.loope.modules() if isinstance(module, Attachment)]  # type: ignore[union-attr]


def required_attachment(model: nn.Module) -> Attachment:
    """The attachment that acts in the model.

    Raises:
        LoopeError: if it has none.
    """
    require(isinstance(model, nn.Module), f"Expected a model (torch.nn.Module), got {told(model)}.")
    found = attachment_of(model)
    if found is not None:
        return found
    for name, part in model.named_modules():
        if attachment_of(part) is not None:
            raise LoopeError(
                f"Nothing is attached to this {type(model).__name__} itself, but to the {type(part).__name__} inside "
                f"it: pass `model.{name}`, and wrap it again if that changes it."
            )
    raise LoopeError(f"Nothing is attached to this {type(model).__name__}; call loope.attach(model, ...) first.")


def sole_attachment(model: nn.Module) -> Attachment:
    """The attachment of a model in which no other library has put something in its place.

    Raises:
        LoopeError: if there is none, or a wrapper such as PEFT's is there.
    """
    found = required_attachment(model)
    require(
        model.loope is found,
        f"A {type(model.loope).__name__} has taken the place of `model.loope`; merge or unload it first, with PEFT by "
        "`model = peft_model.merge_and_unload()`.",
    )
    return found
