"""Variants of timm's plain transformers: relative biases, windows, and the towers of language models."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters.base import WrapperAdapter, register_adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.adapters.timm import OFFSETS, BuiltByTimm, TimmAdapter, is_timm, resized_bias, resized_offsets


@register_adapter
class RelPosAdapter(TimmAdapter):
    """VisionTransformerRelPos: a relative bias per block, or one shared by all, and no table."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "vision_transformer_relpos", "VisionTransformerRelPos")

    def branches(self) -> list[Branch]:
        model = self.model
        biases = [Slot(block.attn, "rel_pos") for block in model.blocks]
        return self.one_branch(
            prefix=model.num_prefix_tokens,
            entry=model.blocks[0],
            own=[*biases, Slot(model, "shared_rel_pos")],
        )

    def set_geometry(self, size: Grid) -> None:
        model = self.model
        model.patch_embed.set_input_size(img_size=tuple(size))
        for bias in (model.shared_rel_pos, *(block.attn.rel_pos for block in model.blocks)):
            if bias is not None:
                _set_window(bias, model.patch_embed.grid_size)


@register_adapter
class SamAdapter(TimmAdapter):
    """VisionTransformerSAM: a table, a relative bias for each axis, and windows in most blocks."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "vision_transformer_sam", "VisionTransformerSAM")

    def branches(self) -> list[Branch]:
        names = (*OFFSETS, "rope")
        attentions = [block.attn for block in self.model.blocks]
        return self.one_branch(own=[Slot(each, name) for each in attentions for name in names if hasattr(each, name)])

    def window(self, block: Any) -> Grid | None:
        return Grid(block.window_size, block.window_size) if block.window_size else None

    def sync_own(self) -> None:
        for block in self.model.blocks:
            block.attn.use_rel_pos = getattr(block.attn, "rel_pos_h", None) is not None

    def set_geometry(self, size: Grid) -> None:
        model = self.model
        model.patch_embed.set_input_size(img_size=tuple(size))
        if model.rope_global is not None:
            model.rope_global.update_feat_shape(list(model.patch_embed.grid_size))
        for block in model.blocks:
            if block.window_size == 0 and block.attn.use_rel_pos:
                for name, length in zip(OFFSETS, model.patch_embed.grid_size, strict=True):
                    setattr(block.attn, name, resized_offsets(getattr(block.attn, name), 2 * length - 1))


class NoRotation(nn.Module):
    """Stands in for a rotary module of timm."""

    def get_embed(self, shape: Any = None) -> None:
        """Return no rotation."""


@register_adapter
class TowerAdapter(TimmAdapter):
    """The vision towers of Qwen3-VL and DeepSeek: no prefix tokens; the table keeps its own grid."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "qwen3_vit", "Qwen3VitEncoder") or is_timm(model, "deepseek_vit", "DeepseekVitEncoder")

    def branches(self) -> list[Branch]:
        model = self.model
        table = getattr(model, "pos_embed", None)
        return self.one_branch(
            table=None,
            axis_tables=[] if table is None else [Slot(model, "pos_embed", torch.zeros_like(table))],
            entry=model.blocks[0],
            own=[Slot(model, "rope", NoRotation())],
        )

    def set_geometry(self, size: Grid) -> None:
        self.model.patch_embed.set_input_size(img_size=tuple(size))


@register_adapter
class TowerClassifierAdapter(BuiltByTimm, WrapperAdapter):
    """A classifier on one of the towers above."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "qwen3_vit", "Qwen3VitClassifier") or is_timm(
            model, "deepseek_vit", "DeepseekVitClassifier"
        )

    def inner(self) -> nn.Module:
        inner: nn.Module = self.model.encoder
        return inner


def _set_window(bias: Any, window: tuple[int, int]) -> None:
    """Change the grid of a relative bias; a table is resampled as ours are."""
    if window == tuple(bias.window_size):
        return
    table = getattr(bias, "relative_position_bias_table", None)
    if table is None:  # a network of the offsets
        bias.set_window_size(window)
        return
    moved = resized_bias(table, bias.window_size, window)
    bias.relative_position_bias_table = nn.Parameter(table.to("meta"))  # which timm does not resample
    bias.set_window_size(window)
    bias.relative_position_bias_table = moved
