"""How encoders enter a model: the one place where prefix and patch tokens are told apart.

The hooks are objects of their own classes, so that `detach` finds them in a copied model too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.attach.adapter import Adapter, Branch
from loope.core.errors import LoopeError
from loope.core.grid import as_grid
from loope.encoders import PositionalEncoder


class Hook:
    """Something that `attach` puts into a model and `detach` takes out."""


class AddToPatches(Hook):
    """After the patch embedding: notes the grid and adds what the additive encoders make of the images."""

    def __init__(self, branch: Branch, encoders: Sequence[PositionalEncoder]):
        self.branch = branch
        self.encoders = encoders

    def __call__(self, module: nn.Module, args: tuple[Any, ...], tokens: Tensor) -> Tensor:
        """`tokens` `(B, N, D)` or `(B, h, w, D)` with their positions."""
        images, side = args[0], self.branch.patch_size
        # Rounded up: a model that takes sizes which do not fit pads the image, others have refused it by now.
        grid = as_grid([-(-length // side) for length in images.shape[-2:]])
        if tokens.shape[1:-1].numel() != grid.size:
            raise LoopeError(
                f"Expected {grid} patches of an image of {images.shape[-2]}x{images.shape[-1]} pixels, got tokens of "
                f"shape {tuple(tokens.shape)}; use a size that is a multiple of {side}."
            )
        self.branch.meet(grid)
        if self.encoders:
            missing = [grid[axis] * side - images.shape[axis - 2] for axis in (0, 1)]
            if any(missing):
                images = F.pad(images, (0, missing[1], 0, missing[0]))
            for encoder in self.encoders:
                tokens = tokens + encoder.embed(images, grid).view(-1, *tokens.shape[1:])
        return tokens


class AddToPrefix(Hook):
    """Where all tokens have come together: adds the learned vectors of the prefix tokens."""

    def __init__(self, branch: Branch, vectors: nn.ParameterDict, key: str):
        self.branch = branch
        self.vectors = vectors  # the dictionary, not the parameter: `.to(...)` may put a new one into it
        self.key = key

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The module's arguments, the first of them `(B, P + N, D)` with the prefix moved."""
        tokens, count = args[0], self.branch.prefix
        if tokens.shape[1:] != (count + self.branch.latest, self.branch.dim):
            return args  # another branch of the model runs through the same module
        return torch.cat((tokens[:, :count] + self.vectors[self.key], tokens[:, count:]), dim=1), *args[1:]


class MixAfterBlock(Hook):
    """After a block: the conditional encoders transform the patch tokens."""

    def __init__(self, branch: Branch, layer: int, encoders: Sequence[PositionalEncoder]):
        self.branch = branch
        self.layer = layer
        self.encoders = encoders

    def __call__(self, module: nn.Module, args: tuple[Any, ...], tokens: Tensor) -> Tensor:
        """`tokens` `(B, P + N, D)` with the patches mixed."""
        grid, count = self.branch.grid_of(tokens.shape[1]), self.branch.prefix
        patches = tokens[:, count:]
        for encoder in self.encoders:
            patches = encoder.mix(patches, grid, self.layer)
        return torch.cat((tokens[:, :count], patches), dim=1) if count else patches


class Position:
    """What an attention module is given: `q, k, bias = position(q, k)`."""

    def __init__(self, branch: Branch, layer: int, encoders: Sequence[PositionalEncoder]):
        self.branch = branch
        self.layer = layer
        self.turning = [encoder for encoder in encoders if "rotate" in encoder.hooks()]
        self.biasing = [encoder for encoder in encoders if "bias" in encoder.hooks()]

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and keys turned, and the sum of the biases; prefix tokens are neither turned nor biased.

        Args:
            q: `(B, heads, P + N, d)`.
            k: `(B, heads, P + N, d)`.
        """
        grid, count = self.branch.grid_of(q.shape[-2]), self.branch.prefix
        patches = q[..., count:, :]
        bias = None
        for encoder in self.biasing:
            each = encoder.bias(patches, grid, self.layer)
            bias = each if bias is None else bias + each
        if bias is not None and count:
            bias = F.pad(bias, (count, 0, count, 0))
        for encoder in self.turning:
            turned_q, turned_k = encoder.rotate(q[..., count:, :], k[..., count:, :], grid, self.layer)
            q, k = _behind(q, turned_q, count), _behind(k, turned_k, count)
        return q, k, bias


class Attend(Hook):
    """In place of an attention module's `forward`: the same with its own weights, and with positions."""

    def __init__(self, adapter: Adapter, attention: nn.Module, position: Position):
        self.adapter = adapter
        self.attention = attention
        self.position = position
        self.previous = attention.__dict__.get("forward")  # another library's patch, to be put back

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the attention module returns."""
        return self.adapter.attend(self.attention, self.position, *args, **kwargs)


def _behind(tokens: Tensor, patches: Tensor, count: int) -> Tensor:
    """`patches` behind the first `count` of `tokens`."""
    return torch.cat((tokens[..., :count, :], patches), dim=-2) if count else patches


def remove_hooks(module: nn.Module) -> None:
    """Take every hook of ours out of one module."""
    for hooks in (module._forward_hooks, module._forward_pre_hooks):
        for key in [key for key, hook in hooks.items() if isinstance(hook, Hook)]:
            del hooks[key]
    patched = module.__dict__.get("forward")
    if isinstance(patched, Attend):
        del module.forward
        if patched.previous is not None:
            module.forward = patched.previous


def is_wired(model: nn.Module) -> bool:
    """Whether a hook of ours is anywhere in the model, also if it was attached to a part or to the whole around it."""
    return any(
        isinstance(hook, Hook)
        for module in model.modules()
        for hook in (
            *module._forward_hooks.values(),
            *module._forward_pre_hooks.values(),
            module.__dict__.get("forward"),
        )
    )
