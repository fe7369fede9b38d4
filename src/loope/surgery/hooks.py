"""The hooks that connect encoders to a model; only here are patches separated from the other tokens.

Hooks are instances of their own classes, so that `detach` finds them in a copied model too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import require
from loope.encoders.masks import require_unpacked
from loope.positions import Positions
from loope.surgery.adapters.branch import Branch
from loope.surgery.host import Host
from loope.surgery.place import Place


class Hook:
    """Base class of the hooks that `attach` registers and `detach` removes.

    Args:
        host: the model.
        number: index of the branch.
    """

    def __init__(self, host: Host, number: int):
        self.host = host
        self.number = number

    @property
    def branch(self) -> Branch:
        """Return the branch that the hook serves."""
        return self.host.branches[self.number]

    @property
    def place(self) -> Place:
        """Return where the branch's patches are."""
        return self.host.places[self.number]


class AddPositions(Hook):
    """Base class of hooks that note where the patches are and apply additive encoders."""

    def add(self, tokens: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Return `tokens` `(B, N, D)` or `(B, h, w, D)` with positions added.

        Args:
            tokens: the patch tokens.
            args: what the patch embedding was called with.
            kwargs: what the patch embedding was called with.
        """
        images, positions = self.host.adapter.positions(self.branch, tokens, *args, **kwargs)
        if self.place.given is not None:
            positions = _fitting(self.place.given, tokens)
            images = self.host.adapter.images_at(images, self.branch, positions, *args, **kwargs)
        require_unpacked(positions, self.branch.others)
        self.place.set(self.host.apply("refined", self.number, images, positions))
        added: Tensor = self.host.apply("add_to_patches", self.number, tokens, images, self.place.positions)
        return added


class AddToPatches(AddPositions):
    """After the patch embedding: adds positions to the patch tokens."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tokens: Tensor) -> Tensor:
        """Return the patch tokens with positions added."""
        branch = self.branch
        return branch.as_in_model(self.add(branch.channels_last(tokens), args, kwargs))


class NoteCall(Hook):
    """Before the patch embedding: notes its arguments for `AddAtEntry`."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note what the patch embedding is called with."""
        self.place.call = args, kwargs


class AddAtEntry(AddPositions):
    """Before the first block: adds positions to the patch tokens, after the model has replaced some of them."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the module's arguments; the first is all tokens, with positions added to the patches."""
        if self.place.call is None:
            return args  # not in a forward pass of the model
        call, self.place.call = self.place.call, None
        branch = self.branch
        others, patches = branch.split(branch.channels_last(args[0]))
        return branch.as_in_model(branch.join(others, self.add(patches, *call))), *args[1:]


class AddToPrefix(Hook):
    """Before the first block: adds the learned vectors to the tokens before and after the patches."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the module's arguments; the first is `(B, P + N + S, D)` with the vectors added."""
        tokens, branch = args[0], self.branch
        if tokens.shape[1:] != (branch.others + self.place.length, branch.dim):
            return args  # the module is shared with another branch
        others, patches = branch.split(tokens)
        return branch.join(self.host.apply("add_to_prefix", self.number, others), patches), *args[1:]


class InBlock(Hook):
    """Base class of hooks that belong to a block.

    Args:
        host: the model.
        number: index of the branch.
        layer: index of the block.
    """

    def __init__(self, host: Host, number: int, layer: int):
        super().__init__(host, number)
        self.layer = layer


class EnterBlock(InBlock):
    """Before a block: tells apart the batches of one backward pass when blocks are run again for it."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Note the tokens that the block starts on."""
        if args:  # else the block's norm enters
            self.place.enter(args[0])


class MixAfterBlock(InBlock):
    """After a block: applies conditional encoders to the patch tokens."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> Any:
        """Return the block's output, tokens or a tuple that starts with them, mixed."""
        branch = self.branch
        tokens = tokens_of(branch, made)
        flat = tokens.flatten(1, -2)
        positions = self.place.at(flat.shape[1], branch.others)
        others, patches = branch.split(flat)
        patches = self.host.apply("mix", self.number, patches, positions, self.layer)
        mixed = branch.as_in_model(branch.join(others, patches).view(tokens.shape))
        return (mixed, *made[1:]) if isinstance(made, tuple) else mixed


class Position(InBlock):
    """The `position` argument of `Adapter.attend`: `q, k, bias = position(q, k)`.

    Args:
        host: the model.
        number: index of the branch.
        layer: index of the block.
        rotates: whether any encoder is rotary.
        biases: whether any encoder adds a bias.
        shared: whether the bias is the same in all blocks.
    """

    def __init__(self, host: Host, number: int, layer: int, rotates: bool, biases: bool, shared: bool):
        super().__init__(host, number, layer)
        self.rotates = rotates
        self.biases = biases
        self.shared = shared

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Rotate queries and keys, and sum the biases; only patches are affected.

        Args:
            q: `(B, heads, P + N + S, d)`.
            k: `(B, heads, P + N + S, d)`.
        """
        branch = self.branch
        window = self.host.adapter.window(branch.blocks[self.layer])
        positions = self.place.at(q.shape[-2], branch.others) if window is None else self.place.within(window)
        (other_q, patch_q), (other_k, patch_k) = branch.split(q), branch.split(k)
        bias = self._bias(patch_q, positions) if self.biases else None
        if self.rotates:
            patch_q, patch_k = self.host.apply("rotate", self.number, patch_q, patch_k, positions, self.layer)
            q, k = branch.join(other_q, patch_q), branch.join(other_k, patch_k)
        return q, k, bias

    def own(self, value: Tensor, nothing: float | Tensor = 0.0) -> Tensor:
        """Scale a part of the model's own encoding by its strength, towards what means nothing."""
        scaled: Tensor = self.host.apply("scale_own", value, nothing)
        return scaled

    def _bias(self, q: Tensor, positions: tuple[Positions, ...]) -> Tensor:
        """Return the bias in the dtype of `q`; if all blocks share it, the one that an earlier block computed."""
        # A compiler recognizes equal computations by itself, and must not let tensors escape from its graph.
        shared = self.shared and not torch.compiler.is_compiling()
        bias = self.place.kept(positions, q) if shared else None
        if bias is None:
            bias = self.host.apply("bias", self.number, q, positions, self.layer).to(q.dtype)
        if shared:
            last = self.layer == len(self.branch.blocks) - 1
            self.place.keep(positions, None if last else bias)
        return bias


class Forward(Hook):
    """Base class of hooks that replace the `forward` of one module.

    Args:
        host: the model.
        number: index of the branch.
        module: the module.
    """

    def __init__(self, host: Host, number: int, module: nn.Module):
        super().__init__(host, number)
        self.module = module
        self.previous = module.__dict__.get("forward")  # another library's patch, restored by `remove_hooks`

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        raise NotImplementedError


class Attend(Forward):
    """Computes an attention module's output with positions."""

    def __init__(self, attention: nn.Module, position: Position):
        super().__init__(position.host, position.number, attention)
        self.position = position

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the attention module returns."""
        return self.host.adapter.attend(self.module, self.position, *args, **kwargs)


class DropPatches(Forward):
    """Drops patches as the model's module does, and their positions with them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        result, kept = self.host.adapter.drop(self.module, *args, **kwargs)
        if kept is not None:
            self.place.take(kept)
        return result


def tokens_of(branch: Branch, made: Any) -> Tensor:
    """Return the tokens of a block's output, which may be a tuple that starts with them, channels last."""
    return branch.channels_last(made[0] if isinstance(made, tuple) else made)


def _fitting(given: Positions, tokens: Tensor) -> Positions:
    """Return the positions of `use_positions` on the device of the patch tokens, after a check that they fit."""
    count, length = len(tokens), tokens.shape[1:-1].numel()
    require(
        given.length == length and given.rows in (1, count),
        f"`use_positions` was given {given.length} patches of {given.rows} images, but the model has {length} patches "
        f"of {count} images; pass the positions of this batch.",
    )
    return given.to(tokens.device)


def entrances(block: nn.Module) -> list[nn.Module]:
    """Return the modules that see the input of a block: itself, and its norms.

    transformers checkpoints the `forward` of a block, so that only hooks inside run again.
    """
    return [block, *(child for child in block.children() if "norm" in type(child).__name__.lower())]


def remove_hooks(module: nn.Module) -> None:
    """Remove all our hooks from one module."""
    for hooks, notes in (
        (module._forward_hooks, (module._forward_hooks_with_kwargs, module._forward_hooks_always_called)),
        (module._forward_pre_hooks, (module._forward_pre_hooks_with_kwargs,)),
    ):
        for key in [key for key, hook in hooks.items() if isinstance(hook, Hook)]:
            del hooks[key]
            for note in notes:
                note.pop(key, None)
    patched = module.__dict__.get("forward")
    if isinstance(patched, Forward):
        del module.forward
        if patched.previous is not None:
            module.forward = patched.previous


def is_wired(model: nn.Module) -> bool:
    """Return whether any of our hooks is in the model, including those of a submodule or an enclosing model."""
    return any(
        isinstance(hook, Hook)
        for module in model.modules()
        for hook in (
            *module._forward_hooks.values(),
            *module._forward_pre_hooks.values(),
            module.__dict__.get("forward"),
        )
    )
