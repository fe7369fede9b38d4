"""What an adapter says of a model: its sequences of patch tokens, and where its own position encoding is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.grid import Grid


class Slot(NamedTuple):
    """A place, `module.attribute`, where a part of the model's own position encoding is stored.

    Attributes:
        module: the module.
        attribute: the name of a parameter, buffer or module in it.
        off: what disables it: None, or a module or tensor in its place.
    """

    module: nn.Module
    attribute: str
    off: nn.Module | Tensor | None = None

    @property
    def value(self) -> Any:
        """The current value; None if the slot is empty."""
        registered = self.module._parameters.get(self.attribute)  # `set_strength` may hide it by a scaled one
        return getattr(self.module, self.attribute) if registered is None else registered


@dataclass(eq=False)
class Branch:
    """A sequence of patch tokens in a model; most models have one, CrossViT has two, Swin one for each stage.

    Attributes:
        patch_embed: maps images, its first argument, to patch tokens `(B, N, D)` or `(B, h, w, D)`.
        blocks: the transformer blocks; they return `(B, P + N + S, D)` or `(B, h, w, D)`.
        attentions: the attention module of each block, or a list if it has several.
        dim: width D of the tokens.
        heads: attention heads.
        grid: the grid of patches at the model's image size.
        patch_size: side of a patch in pixels.
        channels: channels of the image.
        prefix: number P of class, distillation and register tokens before the patches in the blocks.
        suffix: number S of tokens after the patches in the blocks, such as YOLOS' detection tokens.
        channels_first: blocks take and return `(B, D, h, w)`; their attention has `(B, h, w, D)`.
        table: slot of the model's own additive position table `(1, P' + N + S, D)`, `(P' + N + S, D)` or
            `(1, h, w, D)`, if it has one.
        table_prefix: number P' of prefix tokens in that table. They come first among the prefix tokens.
        table_grid: the grid of that table, if the model resamples it to every image; `loope.resize` then leaves it.
        table_square: whether the model resamples its tables to a square and takes the upper left part of it.
        embeddings: the module that reads the table, if it does so before it calls `patch_embed`.
        entry: a module whose first input is all tokens, positions included; needed for `prefix="learned"`.
        add_at_entry: add positions to the patches in the input of `entry`, not in the output of `patch_embed`; for
            models that replace patches in between.
        patch_drop: a module that drops patches in training, if there is one; see `Adapter.drop`.
        axis_tables: slots of further tables that are added likewise: one for each axis, or one with a grid of its own.
        own: slots of the rest of the model's own encoding (bias tables, rotary modules).
        own_biases: modules among these that return a bias which the model adds outside of its attention modules.
        additive: whether additive encoders act on these tokens; not so in later stages of a hierarchical model.
        refused: the reason why the model cannot take encoders with a hook, such as `{"mix": "it ..."}`.
        name: identifies the branch in reports and state dicts.
    """

    patch_embed: nn.Module
    blocks: Sequence[nn.Module]
    attentions: Sequence[nn.Module | Sequence[nn.Module]]
    dim: int
    heads: int
    grid: Grid
    patch_size: int
    channels: int = 3
    prefix: int = 0
    suffix: int = 0
    channels_first: bool = False
    table: Slot | None = None
    table_prefix: int = 0
    table_grid: Grid | None = None
    table_square: bool = False
    embeddings: nn.Module | None = None
    entry: nn.Module | None = None
    add_at_entry: bool = False
    patch_drop: nn.Module | None = None
    axis_tables: Sequence[Slot] = ()
    own: Sequence[Slot] = ()
    own_biases: Sequence[nn.Module] = ()
    additive: bool = True
    refused: Mapping[str, str] = field(default_factory=dict)
    name: str = "patches"

    @property
    def pixels(self) -> Grid:
        """Return the image size in pixels."""
        return Grid(self.grid.height * self.patch_size, self.grid.width * self.patch_size)

    @property
    def others(self) -> int:
        """Return the number of tokens that are no patches."""
        return self.prefix + self.suffix

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Split `(..., P + N + S, D)` into the other tokens, `(..., P + S, D)`, and the patches, `(..., N, D)`."""
        others, patches = tokens[..., : self.prefix, :], tokens[..., self.prefix : -self.suffix or None, :]
        if self.suffix:
            others = torch.cat((others, tokens[..., -self.suffix :, :]), dim=-2)
        return others, patches

    def join(self, others: Tensor, patches: Tensor) -> Tensor:
        """Undo `split`; the other tokens get zeros in the channels that only `patches` have."""
        if not self.others:
            return patches
        more = patches.shape[-1] - others.shape[-1]
        others = F.pad(others, (0, more)) if more else others
        if not self.suffix:
            return torch.cat((others, patches), dim=-2)
        return torch.cat((others[..., : self.prefix, :], patches, others[..., self.prefix :, :]), dim=-2)

    def move_suffix(self, bias: Tensor) -> Tensor:
        """Move the S tokens after the patches to their place, in a bias that has all other tokens before them."""
        if not self.suffix:
            return bias
        order = torch.arange(bias.shape[-1], device=bias.device)
        order = torch.cat((order[: self.prefix], order[self.prefix :].roll(-self.suffix)))
        return bias[..., order[:, None], order]

    def channels_last(self, tokens: Tensor) -> Tensor:
        """Return the tokens between blocks as `(B, P + N + S, D)` or `(B, h, w, D)`."""
        return tokens.movedim(1, -1) if self.channels_first else tokens

    def as_in_model(self, tokens: Tensor) -> Tensor:
        """Undo `channels_last`."""
        return tokens.movedim(-1, 1) if self.channels_first else tokens

    def attentions_of(self, layer: int) -> Sequence[nn.Module]:
        """Return the attention modules of a block."""
        found = self.attentions[layer]
        return [found] if isinstance(found, nn.Module) else found

    @property
    def slots(self) -> list[Slot]:
        """Return all slots of the model's own encoding."""
        return [*self.tables, *self.own]

    @property
    def tables(self) -> list[Slot]:
        """Return the slots of tables that are added to the tokens."""
        return [*([self.table] if self.table else []), *self.axis_tables]


class PositionCall(Protocol):
    """The callable that `Adapter.attend` is given."""

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Rotate queries and keys and compute the bias of the scores.

        Args:
            q: `(B, heads, P + N + S, d)`.
            k: `(B, heads, P + N + S, d)`.

        Returns:
            Queries and keys, which may have more channels than before (so pass the scale of the scores to the kernel),
            and a bias `(1 or B, heads, P + N + S, P + N + S)` of their dtype to add to the scaled scores, or None.
            Blocks may share the bias: do not modify it.
        """
        ...

    def own(self, value: Tensor, nothing: float | Tensor = 0.0) -> Tensor:
        """Scale a part of the model's own encoding (a bias, rotations) by its strength, towards `nothing`."""
        ...
