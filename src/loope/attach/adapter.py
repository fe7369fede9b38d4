"""What `attach` needs to know of a model, and how a model's family tells it.

To attach to a model of one's own, write an `Adapter` with `matches` and `branches`; add `attend` for encoders that act
in attention and `set_geometry` for other resolutions; and register it with `@register_adapter`. For a model around one
that is known, `WrapperAdapter` with `matches` and `inner` is enough.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid


class Slot(NamedTuple):
    """A place in a model where something of its own encoding sits: `module.attribute`."""

    module: nn.Module
    attribute: str

    @property
    def value(self) -> Any:
        """What sits there now; None if nothing does."""
        return getattr(self.module, self.attribute)


@dataclass(eq=False)
class Branch:
    """One sequence of patch tokens in a model; most models have one, CrossViT has two.

    Attributes:
        patch_embed: takes images first, gives patch tokens `(B, N, D)` or `(B, h, w, D)`.
        blocks: the transformer blocks, whose outputs are `(B, P + N, D)`.
        attentions: the attention module of each block.
        dim: width D of the tokens.
        heads: attention heads.
        grid: the grid of patches at the model's own image size.
        patch_size: side of a patch in pixels.
        channels: channels of the image.
        prefix: number P of class, distillation and register tokens before the patches in the blocks.
        table: where the model's own additive table `(1, P' + N, D)` sits, if it has one.
        table_prefix: number P' of prefix tokens that this table has vectors for.
        entry: a module whose first input are all tokens, after positions were added; needed for `prefix="learned"`.
        own: where else the model's own encoding sits (a bias table, a rotary module); None there must switch it off.
        name: tells branches apart in reports.
    """

    patch_embed: nn.Module
    blocks: Sequence[nn.Module]
    attentions: Sequence[nn.Module]
    dim: int
    heads: int
    grid: Grid
    patch_size: int
    channels: int = 3
    prefix: int = 0
    table: Slot | None = None
    table_prefix: int = 0
    entry: nn.Module | None = None
    own: Sequence[Slot] = ()
    name: str = "patches"
    # Grids met so far, by their number of patches: attention sees tokens only, also when a checkpointed block runs
    # again in the backward pass. Two grids of equal size in one backward pass with checkpointing are not told apart.
    met: dict[int, Grid] = field(default_factory=dict)
    latest: int = 0

    def __post_init__(self) -> None:
        self.meet(self.grid)

    @property
    def pixels(self) -> Grid:
        """The size of the images."""
        return Grid(self.grid.height * self.patch_size, self.grid.width * self.patch_size)

    @property
    def slots(self) -> list[Slot]:
        """Every place of the model's own encoding."""
        return [*([self.table] if self.table else []), *self.own]

    def meet(self, grid: Grid) -> None:
        """Remember the grid of the images that are under way."""
        self.met[grid.size] = grid
        self.latest = grid.size

    def grid_of(self, tokens: int) -> Grid:
        """The grid of a sequence of `tokens` tokens, prefix included."""
        tokens = operator.index(tokens)  # while tracing, a shape is made of tensors
        patches = tokens - self.prefix
        if patches not in self.met:
            raise LoopeError(
                f"Expected {self.prefix} prefix and {sorted(self.met)} patch tokens, got {tokens} in "
                "all; encoders that act in blocks cannot be used where tokens are dropped or added on the way."
            )
        return self.met[patches]


class Adapter:
    """How a family of models is attached to; one instance serves one model."""

    def __init__(self, model: nn.Module):
        self.model = model

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """Whether this adapter is for `model`."""
        raise LoopeError(f"{cls.__name__} must say which models it is for: define the class method `matches`.")

    def branches(self) -> list[Branch]:
        """The sequences of patch tokens in the model."""
        raise LoopeError(f"{type(self).__name__} must describe its model: define `branches`.")

    def attend(self, attention: nn.Module, position: Any, *args: Any, **kwargs: Any) -> Any:
        """What `attention.forward(*args, **kwargs)` does, with `q, k, bias = position(q, k)` before the scores.

        Args:
            attention: one of the branch's attention modules.
            position: callable; takes queries and keys `(B, heads, P + N, d)`, gives them back turned, and a bias
                `(1 or B, heads, P + N, P + N)` to add to the scaled scores, or None.
            args: as the block calls its attention.
            kwargs: as the block calls its attention.
        """
        raise LoopeError(f"{type(self).__name__} has no `attend`; define it for encoders that act in attention.")

    def known_attentions(self) -> tuple[type, ...]:
        """The classes of attention modules that `attend` knows from the inside; any, if empty."""
        return ()

    def set_geometry(self, size: Grid) -> None:
        """Make the model expect images of `size` pixels; its additive tables are looked after elsewhere."""
        raise LoopeError(f"{type(self).__name__} has no `set_geometry`, so the model cannot be resized.")


class WrapperAdapter(Adapter):
    """For a model with a known one inside: says what the adapter of that one says. `inner` says which part it is."""

    def __init__(self, model: nn.Module):
        super().__init__(model)
        self.inside = adapter_for(self.inner())

    def inner(self) -> nn.Module:
        """The part of the model that another adapter knows."""
        raise LoopeError(f"{type(self).__name__} must say where the known model is: define `inner`.")

    def branches(self) -> list[Branch]:
        """Those of the part."""
        return self.inside.branches()

    def attend(self, attention: nn.Module, position: Any, *args: Any, **kwargs: Any) -> Any:
        """As in the part."""
        return self.inside.attend(attention, position, *args, **kwargs)

    def known_attentions(self) -> tuple[type, ...]:
        """Those of the part."""
        return self.inside.known_attentions()

    def set_geometry(self, size: Grid) -> None:
        """That of the part."""
        self.inside.set_geometry(size)


_ADAPTERS: list[type[Adapter]] = []
A = TypeVar("A", bound=type[Adapter])


def register_adapter(cls: A) -> A:
    """A decorator for one's own adapters; the last one registered is asked first."""
    _ADAPTERS.insert(0, cls)
    return cls


def adapter_for(model: nn.Module) -> Adapter:
    """The adapter of the model's family.

    Raises:
        LoopeError: if no adapter knows the model.
    """
    require(isinstance(model, nn.Module), f"Expected a model (torch.nn.Module), got {type(model).__name__}.")
    for cls in _ADAPTERS:
        if cls.matches(model):
            return cls(model)
    for name, part in model.named_modules():
        if any(cls.matches(part) for cls in _ADAPTERS):
            raise LoopeError(
                f"Expected a vision transformer, got {type(model).__name__} with a {type(part).__name__} inside: pass "
                f"`model.{name}`, before it is wrapped, or write a `loope.WrapperAdapter`."
            )
    raise LoopeError(
        f"Do not know how to attach to {type(model).__name__}; known are timm's VisionTransformer (ViT, DeiT), Eva, "
        "Beit, Cait and CrossVit, transformers' ViT and DeiT models, and loope.models. For a model of your own see "
        "`loope.Adapter`."
    )
