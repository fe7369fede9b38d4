"""Run a model on images and collect the patch tokens of every layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.surgery.adapters.base import Adapter, adapter_for
from loope.surgery.adapters.branch import Branch
from loope.surgery.batches import images_of
from loope.surgery.find import unwrapped
from loope.surgery.own import evaluating, first_output


class Tokens(NamedTuple):
    """The patch tokens of one forward pass.

    Attributes:
        grid: the grid of patches.
        layers: `(B, N, D)` each: what enters the first block, then what leaves each block.
        output: the model's output: logits, or the first tensor of it.
        images: `(B, C, H, W)`, as the patch embedding sees them.
    """

    grid: Grid
    layers: list[Tensor]
    output: Tensor
    images: Tensor


class Watched:
    """A model and the branch whose tokens are collected.

    Args:
        model: a model that `loope.attach` supports, with or without encoders.
        branch: the number of the sequence of patches, for models with several.

    Raises:
        LoopeError: if the model is not supported, or has no such branch.
    """

    def __init__(self, model: nn.Module, branch: int = 0):
        self.model = model
        self.options: dict[str, Any] = {}  # of the forward pass
        self.grid = Grid(1, 1)  # of the patches; known from the moment the first block runs
        self.adapter: Adapter = adapter_for(unwrapped(model))
        branches = self.adapter.branches()
        require(
            isinstance(branch, int) and 0 <= branch < len(branches),
            f"`branch` must be from 0 to {len(branches) - 1}, as this model has {len(branches)} sequences of patches, "
            f"got {branch!r}.",
        )
        self.branch: Branch = branches[branch]

    @property
    def layer_names(self) -> list[str]:
        """Return the names of the layers of `Tokens`."""
        return ["input", *(f"block {number}" for number in range(1, len(self.branch.blocks) + 1))]

    def batches(self, images: Iterable[Any]) -> Iterator[Tensor]:
        """Yield the batches of images, on the model's device and in its dtype.

        Raises:
            LoopeError: for anything but images of one size.
        """
        like = next(self.branch.patch_embed.parameters())
        size: tuple[int, ...] | None = None
        for batch in [images] if isinstance(images, Tensor) else images:
            pixels = images_of(batch)
            require(
                size in (None, tuple(pixels.shape[1:])),
                f"All images must have one size, got {size and size[1:]} and {tuple(pixels.shape[2:])}; resize them.",
            )
            size = tuple(pixels.shape[1:])
            yield pixels.to(like)

    @torch.no_grad()
    def run(self, images: Tensor) -> Tokens:
        """Run the model on a batch.

        Raises:
            LoopeError: if the images do not fit, or the blocks do not have one token for each patch.
        """
        seen: list[Tensor] = []
        calls: list[tuple[Any, Any]] = []
        pixels: list[Tensor] = []

        def called(module: nn.Module, args: Any, kwargs: Any) -> None:
            calls.append((args, kwargs))

        def entered(module: nn.Module, args: Any, kwargs: Any) -> None:
            seen.append(first_output(args or tuple(kwargs.values())))
            called_with, more = calls[0]
            made, positions = self.adapter.positions(self.branch, self._patches(seen[0]), *called_with, **more)
            if positions.whole is None:
                raise LoopeError("The patches must be those of a whole grid, in row-major order.")
            self.grid = positions.whole
            pixels.append(made)

        def left(module: nn.Module, args: Any, output: Any) -> None:
            seen.append(first_output(output))

        blocks = self.branch.blocks
        hooks = [
            self.branch.patch_embed.register_forward_pre_hook(called, with_kwargs=True),
            blocks[0].register_forward_pre_hook(entered, with_kwargs=True),
            *(block.register_forward_hook(left) for block in blocks),
        ]
        try:
            with evaluating(self.model):
                output = first_output(self.model(images, **self.options))
        except LoopeError:
            raise
        except Exception as error:
            raise LoopeError(
                f"The model cannot take images of {tuple(images.shape)}: {type(error).__name__}: {str(error)[:300]}"
            ) from error
        finally:
            for hook in hooks:
                hook.remove()
        tokens = [self._patches(each) for each in seen]
        for each in tokens:
            self._require_all(each, self.grid)
        return Tokens(self.grid, tokens, output, pixels[0])

    def _patches(self, tokens: Tensor) -> Tensor:
        """Return the patches, `(B, N, D)`, of what a block takes or returns; for some that is `(B, h, w, D)`."""
        return self.branch.split(self.branch.channels_last(tokens).flatten(1, -2))[1]

    def _require_all(self, patches: Tensor, grid: Grid) -> None:
        require(
            patches.shape[1] == grid.size,
            f"Expected a token for each of the {grid} patches after every block, got {patches.shape[1]}: the model "
            "drops, merges or adds tokens, so that they have no places to compare.",
        )


def require_finite(layers: Iterable[Tensor], names: Iterable[str]) -> None:
    """Raise a LoopeError that names the first layer with NaN or infinite tokens."""
    for tokens, name in zip(layers, names, strict=True):
        require(
            bool(tokens.isfinite().all()),
            f"The tokens of layer {name!r} have NaN or infinite values; check the weights and the images.",
        )
