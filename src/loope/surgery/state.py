"""The attachment in a model: encoders, learned prefix vectors, and the model's own encoding while it is unused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.grid import Grid
from loope.encoders import PositionalEncoder
from loope.encoders.masks import mask, pad_prefix
from loope.positions import Positions
from loope.surgery import specs
from loope.surgery.adapters.branch import Branch
from loope.surgery.hooks import (
    AddAtEntry,
    AddToPatches,
    AddToPrefix,
    Attend,
    DropPatches,
    EnterBlock,
    MixAfterBlock,
    NoteCall,
    Position,
    entrances,
    remove_hooks,
)
from loope.surgery.host import Host, fit_table, give_back, keep, take, zeros_for
from loope.surgery.names import HINT
from loope.surgery.own_tables import RestoreOwnTables, ScaleOwnBias, ScaleOwnTables, show_own_tables
from loope.surgery.place import Place


class Attachment(nn.Module):
    """The module `model.loope`; its state dict includes how it was attached, as bytes.

    Args:
        host: the model.
        encoders: the encoders of each branch.
        spec: the arguments of `attach`, for checkpoints.
    """

    strength: Tensor | None  # of the encoders, between 0 and 1; None stands for 1
    own_strength: Tensor | None  # of the model's own encoding

    def __init__(self, host: Host, encoders: Sequence[Sequence[PositionalEncoder]], spec: specs.Spec):
        super().__init__()
        self.host = host  # a plain attribute, so that the model's modules are not registered twice
        host.places = [Place.of(branch.grid, len(each)) for branch, each in zip(host.branches, encoders, strict=True)]
        self.baked = False
        self.encoders = nn.ModuleList(nn.ModuleList(each) for each in encoders)
        self.prefixes = nn.ParameterDict()
        self.own = nn.Module()
        self.spec = spec
        self.register_buffer(HINT, torch.empty(0))
        self.strengths = (1.0, 1.0)  # the two buffers below as numbers
        self.register_buffer("strength", None, persistent=False)
        self.register_buffer("own_strength", None, persistent=False)

    @property
    def branches(self) -> list[Branch]:
        """Return the model's sequences of patch tokens."""
        return self.host.branches

    @property
    def own_size(self) -> Grid:
        """Return the image size in pixels that the model's own encoding is for."""
        branch = self.branches[0]
        own = branch.table_grid or (branch.grid if self.spec["keep_own"] else self.host.own_grids[0])
        return Grid(own.height * branch.patch_size, own.width * branch.patch_size)

    @property
    def acting(self) -> Attachment:
        """Return itself; wrappers that forward attributes return the active attachment."""
        return self

    def encoders_of(self, number: int, hook: str | None = None) -> list[PositionalEncoder]:
        """Return the encoders of a branch, or those that implement a hook."""
        encoders: list[PositionalEncoder] = list(self.encoders[number])  # type: ignore[call-overload]
        return encoders if hook is None else [encoder for encoder in encoders if hook in encoder.hooks()]

    def forward(self, step: str, *args: Any) -> Any:
        """Run one of the methods below.

        Hooks call the module instead of the method, so that a wrapper such as PEFT's can choose the active one.
        """
        return getattr(self, step)(*args)

    def refined(self, number: int, images: Any, positions: Positions) -> list[Positions]:
        """Return the positions of the patches for each encoder, refined by the images for those that act in blocks."""
        # The compiler first: with the strength read, it would compile again for each strength.
        if not torch.compiler.is_compiling() and self.training and torch.is_grad_enabled() and self.strengths[0] == 0:
            first = "Hand the model over with loope.transfer first, or raise" if self.spec["keep_own"] else "Raise"
            warnings.warn(
                f"The attached encoder has strength 0: training leaves it out. {first} it with loope.set_strength.",
                stacklevel=2,
            )
        return [
            positions if "embed" in encoder.hooks() else encoder.refine_positions(images, positions)
            for encoder in self.encoders_of(number)
        ]

    def add_to_patches(self, number: int, tokens: Tensor, images: Any, positions: Sequence[Positions]) -> Tensor:
        """Add the additive encoders' output to `tokens` `(B, N, D)` or `(B, h, w, D)`."""
        for encoder, place in self._with("embed", number, positions):
            tokens = tokens + self._scaled(encoder.embed(images, place)).view(-1, *tokens.shape[1:])
        return tokens

    def add_to_prefix(self, number: int, prefix: Tensor) -> Tensor:
        """Add the learned vectors to the tokens before and after the patches `(B, P + S, D)`."""
        return prefix + self._scaled(self.prefixes[self.branches[number].name])

    def mix(self, number: int, patches: Tensor, positions: Sequence[Positions], layer: int) -> Tensor:
        """Apply the conditional encoders to the patch tokens `(B, N, D)` after a block."""
        for encoder, place in self._with("mix", number, positions):
            if encoder.mixes_after(layer):
                mixed = encoder.mix(patches, place, layer)
                patches = mixed if self.strength is None else patches.lerp(mixed, self.strength.to(patches.dtype))
        return patches

    def bias(self, number: int, q: Tensor, positions: Sequence[Positions], layer: int) -> Tensor:
        """Return the sum of the biases, other tokens included, for queries `(B, heads, N, d)` of patches."""
        branch = self.branches[number]
        prefix = branch.others  # encoders expect all other tokens before the patches
        biases = []
        for encoder, place in self._with("bias", number, positions):
            if self.strength is None:
                biases.append(encoder.bias_with_prefix(q, place, layer, prefix))
                continue
            bias = encoder.bias(q, place, layer)
            # What an encoder hides at full strength is seen with weight 1 - t; other images stay hidden.
            hidden = torch.log1p(-self.strength).to(bias.dtype)
            scaled = mask(torch.where(bias.isneginf(), hidden, bias * self.strength), place)
            biases.append(pad_prefix(scaled, place, prefix))
        return branch.move_suffix(sum(biases[1:], start=biases[0]))

    def rotate(
        self, number: int, q: Tensor, k: Tensor, positions: Sequence[Positions], layer: int
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys `(B, heads, N, d)` of patches."""
        for encoder, place in sorted(self._with("rotate", number, positions), key=lambda pair: pair[0].widens):
            if self.strength is None:
                q, k = encoder.rotate(q, k, place, layer)
            else:
                q, k = encoder.rotate_partly(q, k, place, layer, self.strength)
        return q, k

    def scale_own(self, value: Tensor, nothing: float | Tensor = 0.0) -> Tensor:
        """Return a part of the model's own encoding at its strength: `nothing` at 0, `value` at 1."""
        if self.own_strength is None:
            return value
        return torch.lerp(torch.zeros_like(value) + nothing, value, self.own_strength.to(value.dtype))

    def _scaled(self, vectors: Tensor) -> Tensor:
        return vectors if self.strength is None else vectors * self.strength

    def _with(
        self, hook: str, number: int, positions: Sequence[Positions]
    ) -> list[tuple[PositionalEncoder, Positions]]:
        """Return the encoders of a branch that implement a hook, with their positions."""
        pairs = zip(self.encoders_of(number), positions, strict=True)
        return [(encoder, place) for encoder, place in pairs if hook in encoder.hooks()]

    def set_aside(self) -> None:
        """Move the model's own encoding to `self.own`, where it is unused; zeros replace a table."""
        names = {module: name for name, module in self.host.adapter.model.named_modules()}
        for branch in self.branches:
            for slot in branch.slots:
                if slot.value is None:
                    continue
                # The slot's name in the model, with slashes: names of parameters must not contain dots.
                key = "/".join((*names[slot.module].split("."), slot.attribute)).lstrip("/")
                value, taken = take(slot, zeros_for(branch) if slot is branch.table else slot.off)
                keep(self.own, key, value, taken)
                self.host.taken[key] = (branch, slot, taken)
        self.host.adapter.sync_own()

    def restore(self) -> None:
        """Move the model's own encoding back, resampled if the model was resized."""
        host = self.host
        old = dict(zip(map(id, self.branches), host.own_grids, strict=True))
        # In reverse: each slot recorded the siblings that were present when it was taken.
        for key, (branch, slot, taken) in reversed(host.taken.items()):
            value = getattr(self.own, key)
            delattr(self.own, key)
            give_back(slot, value, taken)
            if slot is branch.table:
                fit_table(branch, old[id(branch)])
        host.taken.clear()
        host.adapter.sync_own()
        if any(branch.grid != old[id(branch)] for branch in self.branches):
            host.adapter.set_geometry(self.branches[0].pixels)

    def wire(self) -> None:
        """Register the hooks in the model."""
        host = self.host
        for number, branch in enumerate(self.branches):
            if branch.add_at_entry and branch.entry is not None:
                branch.patch_embed.register_forward_pre_hook(NoteCall(host, number), with_kwargs=True)
                branch.entry.register_forward_pre_hook(AddAtEntry(host, number))
            else:
                branch.patch_embed.register_forward_hook(AddToPatches(host, number), prepend=True, with_kwargs=True)
            if branch.name in self.prefixes and branch.entry is not None:
                branch.entry.register_forward_pre_hook(AddToPrefix(host, number))
            if branch.patch_drop is not None:
                branch.patch_drop.forward = DropPatches(host, number, branch.patch_drop)
            mixing = self.encoders_of(number, "mix")
            rotates, biases = bool(self.encoders_of(number, "rotate")), self.encoders_of(number, "bias")
            shared = not any(encoder.reads_content or encoder.bias_per_layer for encoder in biases)
            fades = self.own_strength is not None and self.spec["keep_own"]
            if fades and any(table.value is not None for table in branch.tables):
                (branch.embeddings or branch.patch_embed).register_forward_pre_hook(ScaleOwnTables(host, number))
                branch.blocks[0].register_forward_pre_hook(RestoreOwnTables(host, number))
                host.adapter.model.register_forward_hook(RestoreOwnTables(host, number), always_call=True)
            for module in branch.own_biases if fades else ():
                module.register_forward_hook(ScaleOwnBias(host, number))
            for layer, block in enumerate(branch.blocks):
                if rotates or biases or mixing:
                    for module in entrances(block):
                        module.register_forward_pre_hook(EnterBlock(host, number, layer), prepend=True)
                if any(encoder.mixes_after(layer) for encoder in mixing):
                    block.register_forward_hook(MixAfterBlock(host, number, layer), prepend=True)
                if rotates or biases or (fades and branch.own):
                    position = Position(host, number, layer, rotates, bool(biases), shared)
                    for attention in branch.attentions_of(layer):
                        attention.forward = Attend(attention, position)

    def unwire(self) -> None:
        """Remove the hooks from the model."""
        for branch in self.branches:
            show_own_tables(branch)
        for module in self.host.adapter.model.modules():
            remove_hooks(module)

    def fit(self, grids: Sequence[Grid]) -> None:
        """Resize the encoders of each branch."""
        for number, grid in enumerate(grids):
            for encoder in self.encoders_of(number):
                encoder.resize(grid)

    def get_extra_state(self) -> Tensor:
        """Return the spec as bytes: part of every state dict, but not a buffer that weight averaging would change."""
        sizes = {"own_size": list(self.own_size), "size": list(self.branches[0].pixels)}
        return specs.to_bytes({**self.saved_spec, **sizes})

    def set_extra_state(self, state: Tensor) -> None:
        """Check that the checkpoint is of the same attachment, and take its strengths."""
        theirs = specs.from_bytes(state)
        specs.require_same(self.spec, theirs)
        self.set_strengths(*specs.strengths(theirs))

    @property
    def saved_spec(self) -> specs.Spec:
        """Return the arguments of `attach`, and the strengths if they were set."""
        return self.spec if self.strengths == (1.0, 1.0) else {**self.spec, "strengths": list(self.strengths)}

    def set_strengths(self, strength: float, own: float) -> None:
        """Set how strongly the encoders and the model's own encoding act; 1 and 1 at the start."""
        self.strengths = float(strength), float(own)
        for name, value in zip(("strength", "own_strength"), self.strengths, strict=True):
            buffer = getattr(self, name)
            if buffer is None and value != 1:
                with torch.inference_mode(False):  # it outlives the caller's mode
                    setattr(self, name, torch.tensor(value, device=self._device()))
                self.unwire()
                self.wire()  # the own encoding's hooks are only there when needed
            elif buffer is not None:
                buffer.fill_(value)  # in place: compiled code sees the new value

    def retire_own(self) -> None:
        """Set the model's own encoding aside, after it was kept beside the encoders; they act at full strength."""
        self.unwire()
        self.strengths, self.strength, self.own_strength = (1.0, 1.0), None, None
        self.spec = {**self.spec, "keep_own": False}
        self.set_aside()
        self.wire()

    def _apply(self, fn: Any, recurse: bool = True) -> Attachment:
        """Move to a device or dtype. Strengths stay as they were set: casts would round them, `to_empty` lose them."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in zip(("strength", "own_strength"), self.strengths, strict=True):
            buffer = getattr(self, name)
            if buffer is not None:
                wide = torch.promote_types(buffer.dtype, torch.float32)
                setattr(self, name, buffer.to(wide).fill_(value))
        return self

    def _device(self) -> torch.device:
        return next(self.branches[0].patch_embed.parameters()).device

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.setdefault(prefix + HINT, getattr(self, HINT))  # missing in older files
        super()._load_from_state_dict(state_dict, prefix, *args)
