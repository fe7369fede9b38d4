"""transformers' vision transformers, alone or inside another model of transformers; see `transformers_families`."""

from __future__ import annotations

import inspect
import sys
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, as_grid
from loope.encoders.resample import resample
from loope.surgery.adapters import transformers_attention as attentions
from loope.surgery.adapters.attention import attend_as
from loope.surgery.adapters.base import Adapter, register_adapter
from loope.surgery.adapters.branch import Branch, PositionCall, Slot
from loope.surgery.adapters.timm import OFFSETS, resized_offsets, square
from loope.surgery.adapters.transformers_build import BuiltByTransformers, config_of
from loope.surgery.adapters.transformers_families import Family, families, family_of, is_transformers, refusal_of

INTERPOLATES = "interpolate_pos_encoding"
__all__ = ["HuggingFaceAdapter", "families", "refusal_of"]


@register_adapter
class HuggingFaceAdapter(BuiltByTransformers):
    """A model of transformers that is, or contains, the core of one family."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_transformers(model) and len(_cores(model)) == 1

    @cached_property
    def core(self) -> Any:
        """Return the part that embeds images and runs the blocks."""
        return _cores(self.model)[0]

    @cached_property
    def family(self) -> Family:
        """Return the core's entry in the table of families."""
        found = family_of(self.core)
        assert found is not None  # noqa: S101  (for mypy)
        return found

    def branches(self) -> list[Branch]:
        family, core, config = self.family, self.core, self.core.config
        require(
            not getattr(config, "is_native", False),
            f"This {type(core).__name__} computes its position encoding in its forward pass (is_native=True), where "
            "nothing can replace it; use one with a position table (is_native=False).",
        )
        patch_embed = self._part(family.patch_embed)
        require(
            patch_embed is not None,
            f"This {type(core).__name__} has no `{family.patch_embed}` that embeds patches of the image; a hybrid with "
            "a convolutional network in front is not supported.",
        )
        blocks = list(self._part(family.blocks))
        side, own_size = square(config.patch_size), self.own_size()
        table = None if family.table is None else self._slot(family.table)
        first, registers, suffix = (
            sum(_tokens(self._part(path)) for path in paths)
            for paths in (family.prefix, family.registers, family.suffix)
        )
        return [
            Branch(
                patch_embed=patch_embed,
                blocks=blocks,
                attentions=[self._attention(block) for block in blocks],
                dim=config.hidden_size,
                heads=config.num_attention_heads,
                grid=_cells(as_grid(getattr(patch_embed, "image_size", own_size), "image_size"), side),
                patch_size=side,
                channels=config.num_channels,
                prefix=first + registers,
                suffix=suffix,
                channels_first=family.channels_first,
                table=table,
                table_prefix=first + family.spare_rows if table is not None else 0,
                table_grid=_cells(self.own_size(family.table_size), side) if family.adapts else None,
                embeddings=getattr(core, "embeddings", None),
                entry=blocks[0] if family.entry is None else self._part(family.entry),
                # A mask token replaces patches in between; a convolution returns channels first.
                add_at_entry=self._part("embeddings.mask_token") is not None or isinstance(patch_embed, nn.Conv2d),
                axis_tables=[
                    self._slot(path, torch.zeros_like(self._part(path)))
                    for path in family.more_tables
                    if self._part(path) is not None
                ],
                patch_drop=None if family.drops is None else self._part(family.drops),
                own=[*self._rotary(), *self._biases(), *self._offsets()],
                own_biases=[slot.value for slot in self._biases() if slot.value is not None],
            )
        ]

    def attend(self, attention: nn.Module, position: PositionCall, *args: Any, **kwargs: Any) -> Any:
        return attend_as(type(attention), attentions.attend)(attention, position, *args, **kwargs)

    def known_attentions(self) -> tuple[type, ...]:
        """Return the classes of the family's own file: `attend` does what their `forward` does."""
        home = sys.modules[self.family.module]
        return tuple(
            each for each in vars(home).values() if isinstance(each, type) and each.__module__ == home.__name__
        )

    def drop(self, patch_drop: Any, *args: Any, **kwargs: Any) -> tuple[Any, Tensor | None]:
        result = type(patch_drop).forward(patch_drop, *args, **kwargs)
        tokens, _, restore = result
        return result, torch.argsort(restore, dim=1)[:, : tokens.shape[1] - len(self.family.prefix)]

    def sync_own(self) -> None:
        if self.family.bias_flag is not None:
            for slot in (*self._biases(), *self._offsets()):
                setattr(slot.module, self.family.bias_flag, slot.value is not None)

    def window(self, block: Any) -> Grid | None:
        side = block.window_size if self.family.offsets else 0
        return Grid(side, side) if side else None

    def check_bias(self) -> None:
        attentions.check_bias(self.core.config._attn_implementation)

    def set_geometry(self, size: Grid) -> None:
        family, core = self.family, self.core
        side = square(core.config.patch_size)
        patches = self._part(family.patch_embed)
        if family.adapts:
            patches.image_size = tuple(size)  # the table keeps its size, and the configuration with it
            return
        require(
            size.height == size.width or not family.only_square,
            f"{type(core).__name__} has one number for its image size, so it cannot be set to {size}; without "
            "loope.resize, call it with interpolate_pos_encoding=True on images of any size.",
        )
        require(
            not hasattr(self.model, "prompt_encoder") or tuple(size) == tuple(patches.image_size),
            f"The prompt encoder and mask decoder of {type(self.model).__name__} are for images of one size; attach to "
            "and resize `model.vision_encoder` alone, or leave the size as it is.",
        )
        one = size.height if size.height == size.width else None
        core.config.image_size = list(size) if one is None else one
        embeddings = getattr(core, "embeddings", patches)
        for module in {embeddings, patches}:
            if hasattr(module, "image_size"):
                module.image_size = one if family.only_square else tuple(size)
            if hasattr(module, "num_patches"):
                module.num_patches = _cells(size, side).size
        if hasattr(embeddings, "position_ids"):
            count = _cells(size, side).size + len(family.prefix)
            embeddings.position_ids = torch.arange(count, device=embeddings.position_ids.device)[None]
        vars(embeddings).pop(INTERPOLATES, None)
        if one is None and family.table is not None and hasattr(embeddings, INTERPOLATES):
            setattr(embeddings, INTERPOLATES, ResampleTable(self._slot(family.table), _cells(size, side), side))
        for block in self._part(family.blocks) if family.offsets else ():
            attention = self._attention(block)
            for name, length in zip(OFFSETS, _cells(size, side), strict=True):
                if self.window(block) is None and getattr(attention, name, None) is not None:
                    setattr(attention, name, resized_offsets(getattr(attention, name), 2 * length - 1))

    def describe_config(self, size: Grid) -> dict[str, Any]:
        config: dict[str, Any] = self.model.config.to_dict()
        if self.family.adapts:
            return config
        inner = config_of(config, self.core.config.model_type)
        require(
            size.height == size.width or not self.family.square,
            f"A {type(self.core).__name__} with its own encoding for {size} pixels cannot be built again, since its "
            "configuration has one number for the image size; save it at a square size.",
        )
        inner["image_size"] = size.height if self.family.square else list(size)
        return config

    def init_options(self) -> dict[str, bool]:
        if self.core is not self.model:
            return {}  # other classes know by themselves what they need
        has = {"add_pooling_layer": "pooler", "use_mask_token": "embeddings.mask_token"}
        values = {name: self._part(has[name]) is not None for name in self.family.init_options}
        defaults = inspect.signature(type(self.model).__init__).parameters
        return {name: value for name, value in values.items() if value is not defaults[name].default}

    def _part(self, path: str) -> Any:
        """Return a module or parameter of the core, or None if it has none of this name."""
        found = self.core
        for name in path.split("."):
            found = getattr(found, name, None)
        return found

    def _slot(self, path: str, off: Any = None) -> Slot:
        *above, attribute = path.split(".")
        return Slot(self._part(".".join(above)) if above else self.core, attribute, off)

    def _rotary(self) -> list[Slot]:
        family, config = self.family, self.core.config
        if family.rotary is None:
            return []
        slots = [self._slot(family.rotary, attentions.NoRotation(config.hidden_size // config.num_attention_heads))]
        if family.rotary_prefix is not None:
            angles = self._part(family.rotary_prefix)
            slots.append(self._slot(family.rotary_prefix, torch.zeros_like(angles, requires_grad=False)))
        return slots

    def _biases(self) -> list[Slot]:
        family = self.family
        paths = [] if family.shared_bias is None else [family.shared_bias]
        if family.block_bias is not None:
            count = len(self._part(family.blocks))
            paths += [f"{family.blocks}.{number}.{family.block_bias}" for number in range(count)]
        slots = [self._slot(path) for path in paths]
        return [slot for slot in slots if hasattr(slot.module, slot.attribute)]

    def _attention(self, block: nn.Module) -> nn.Module:
        return block.get_submodule(self.family.attention)

    def _offsets(self) -> list[Slot]:
        """Return the slots of the tables of offsets in all blocks."""
        blocks = self._part(self.family.blocks) if self.family.offsets else ()
        return [
            Slot(attention, name)
            for attention in map(self._attention, blocks)
            for name in OFFSETS
            if hasattr(attention, name)
        ]

    def own_size(self, entry: str = "image_size") -> Grid:
        """Return an image size in pixels that the configuration names."""
        return as_grid(getattr(self.core.config, entry), entry)


class ResampleTable:
    """Replaces the `interpolate_pos_encoding` of embeddings, which takes its position table for a square.

    Args:
        table: slot of the table.
        grid: its grid.
        side: side of a patch in pixels.
    """

    def __init__(self, table: Slot, grid: Grid, side: int):
        self.table = table
        self.grid = grid
        self.side = side

    def __call__(self, embeddings: Tensor, height: int, width: int) -> Tensor:
        """Return the table for images of a size, `(1, P' + N, D)`."""
        table = getattr(self.table.module, self.table.attribute)
        table = table.reshape(1, -1, table.shape[-1])
        count = table.shape[1] - self.grid.size
        patches = resample(table[:, count:], self.grid, _cells(Grid(height, width), self.side))
        return torch.cat((table[:, :count], patches), dim=1)


@register_adapter
class TransformersRefusal(Adapter):
    """Explains why some models of transformers are not supported."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_transformers(model) and not _cores(model) and refusal_of(model) is not None

    def branches(self) -> list[Branch]:
        name, why = refusal_of(self.model) or ("", "")
        inside = "" if type(self.model).__name__ == name else f" the {name} inside is not supported,"
        raise LoopeError(
            f"Cannot attach to {type(self.model).__name__}:{inside} {why}. For a model of your own see `loope.Adapter`."
        )


def _cores(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if family_of(module) is not None]


def _cells(size: Grid, side: int) -> Grid:
    return Grid(size.height // side, size.width // side)


def _tokens(parameter: Tensor | None) -> int:
    """Return the number of prefix tokens that a parameter `(1, n, D)`, or `(D,)` for one, holds."""
    if parameter is None:
        return 0
    return parameter.shape[1] if parameter.dim() == 3 else 1
