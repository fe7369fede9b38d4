"""How encoders enter a model: the one place where prefix and patch tokens are told apart.

The hooks are objects of their own classes, so that `detach` finds them in a copied model too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.attach.adapter import Branch
from loope.attach.host import Host
from loope.core.errors import LoopeError
from loope.core.grid import as_grid


class Hook:
    """Something that `attach` puts into a model and `detach` takes out.

    Args:
        host: the model.
        number: of the branch.
    """

    def __init__(self, host: Host, number: int):
        self.host = host
        self.number = number

    @property
    def branch(self) -> Branch:
        """The sequence of patch tokens that the hook is for."""
        return self.host.branches[self.number]


class AddToPatches(Hook):
    """After the patch embedding: notes the grid and lets the additive encoders act."""

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
        added: Tensor = self.host.apply("add_to_patches", self.number, tokens, images, grid)
        return added


class AddToPrefix(Hook):
    """Where all tokens have come together: adds the learned vectors of the prefix tokens."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The module's arguments, the first of them `(B, P + N, D)` with the prefix moved."""
        tokens, count = args[0], self.branch.prefix
        if tokens.shape[1:] != (count + self.branch.latest, self.branch.dim):
            return args  # another branch of the model runs through the same module
        prefix = self.host.apply("add_to_prefix", self.number, tokens[:, :count])
        return torch.cat((prefix, tokens[:, count:]), dim=1), *args[1:]


class InBlock(Hook):
    """A hook that knows its block.

    Args:
        host: the model.
        number: of the branch.
        layer: number of the block.
    """

    def __init__(self, host: Host, number: int, layer: int):
        super().__init__(host, number)
        self.layer = layer


class MixAfterBlock(InBlock):
    """After a block: the conditional encoders transform the patch tokens."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], tokens: Tensor) -> Tensor:
        """`tokens` `(B, P + N, D)` with the patches mixed."""
        grid, count = self.branch.grid_of(tokens.shape[1]), self.branch.prefix
        return _behind(tokens, self.host.apply("mix", self.number, tokens[:, count:], grid, self.layer), count)


class Position(InBlock):
    """What an attention module is given: `q, k, bias = position(q, k)`.

    Args:
        host: the model.
        number: of the branch.
        layer: number of the block.
        rotates: whether there are rotary encoders.
        biases: whether there are encoders with a bias.
    """

    def __init__(self, host: Host, number: int, layer: int, rotates: bool, biases: bool):
        super().__init__(host, number, layer)
        self.rotates = rotates
        self.biases = biases

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and keys turned, and the sum of the biases; prefix tokens are neither turned nor biased.

        Args:
            q: `(B, heads, P + N, d)`.
            k: `(B, heads, P + N, d)`.
        """
        grid, count = self.branch.grid_of(q.shape[-2]), self.branch.prefix
        patches = q[..., count:, :], k[..., count:, :]
        bias = None
        if self.biases:
            bias = self.host.apply("bias", self.number, patches[0], grid, self.layer)
            bias = F.pad(bias, (count, 0, count, 0)) if count else bias
        if self.rotates:
            turned_q, turned_k = self.host.apply("rotate", self.number, *patches, grid, self.layer)
            q, k = _behind(q, turned_q, count), _behind(k, turned_k, count)
        return q, k, bias


class Attend(Hook):
    """In place of an attention module's `forward`: the same with its own weights, and with positions."""

    def __init__(self, attention: nn.Module, position: Position):
        super().__init__(position.host, position.number)
        self.attention = attention
        self.position = position
        self.previous = attention.__dict__.get("forward")  # another library's patch, to be put back

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the attention module returns."""
        return self.host.adapter.attend(self.attention, self.position, *args, **kwargs)


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
