"""timm's plain transformers: VisionTransformer (ViT, DeiT, distilled), Eva and Beit."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, as_grid
from loope.encoders.resample import resample
from loope.surgery.adapters import timm_attention
from loope.surgery.adapters.base import Adapter, Branch, Slot, register_adapter


def is_timm(model: nn.Module, module: str, *classes: str) -> bool:
    """Whether `model` is of one of timm's classes; timm is not imported for the question."""
    home = sys.modules.get(f"timm.models.{module}")
    return home is not None and isinstance(model, tuple(getattr(home, name) for name in classes))


def square(patch_size: Any) -> int:
    """The side of a patch.

    Raises:
        LoopeError: if patches are not square.
    """
    height, width = as_grid(patch_size, "patch_size")
    require(height == width, f"Patches must be square, got {height}x{width}.")
    return height


class TimmAdapter(Adapter):
    """What the families of timm share."""

    model: Any

    def one_branch(self, **special: Any) -> list[Branch]:
        """The branch of a model with one sequence of tokens; `special` says what is not as in all of them."""
        model = self.model
        return [
            Branch(
                patch_embed=model.patch_embed,
                blocks=list(model.blocks),
                # Blocks that are built otherwise stand for their attention: not known, and refused where it matters.
                attentions=[getattr(block, "attn", block) for block in model.blocks],
                dim=model.embed_dim,
                heads=getattr(getattr(model.blocks[0], "attn", None), "num_heads", 1),
                grid=Grid(*model.patch_embed.grid_size),
                patch_size=square(model.patch_embed.feat_ratio(as_scalar=False)),  # counts a hybrid's CNN stem in
                channels=getattr(model, "in_chans", 3),
                table=Slot(model, "pos_embed"),
                entry=getattr(model, "norm_pre", model.pos_drop),  # without a table, `pos_drop` is not called
                **special,
            )
        ]

    def attend(self, attention: nn.Module, position: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's own attention, with positions."""
        return timm_attention.attend(attention, position, *args, **kwargs)

    def known_attentions(self) -> tuple[type, ...]:
        """The attention modules known from the inside."""
        from timm.layers import Attention, AttentionRope

        return Attention, AttentionRope


@register_adapter
class PlainAdapter(TimmAdapter):
    """VisionTransformer and Eva: one sequence, prefix tokens before the patches."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """ViT, DeiT, distilled DeiT; EVA and its kin."""
        return is_timm(model, "vision_transformer", "VisionTransformer") or is_timm(model, "eva", "Eva")

    def branches(self) -> list[Branch]:
        """One."""
        model = self.model
        drop = getattr(model, "patch_drop", None)
        require(
            not getattr(drop, "prob", 0),
            "Patch dropout removes tokens, and with them the grid; create the model with patch_drop_rate=0.",
        )
        return self.one_branch(
            prefix=model.num_prefix_tokens,
            table_prefix=0 if model.no_embed_class else model.num_prefix_tokens,
            own=[Slot(model, "rope")] if hasattr(model, "rope") else [],
        )

    def set_geometry(self, size: Grid) -> None:
        """The patch embedding's size, and that of the model's own rotary encoding."""
        self.model.patch_embed.set_input_size(img_size=tuple(size))
        if getattr(self.model, "rope", None) is not None:
            self.model.rope.update_feat_shape(list(self.model.patch_embed.grid_size))

    def known_attentions(self) -> tuple[type, ...]:
        """Those of timm's layers, and EVA's own."""
        from timm.models.eva import EvaAttention

        return (*super().known_attentions(), EvaAttention)


@register_adapter
class BeitAdapter(TimmAdapter):
    """BEiT: a relative bias in each block, or one for all, beside or instead of a table."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """BEiT and BEiT v2."""
        return is_timm(model, "beit", "Beit")

    def branches(self) -> list[Branch]:
        """One, whose own encoding has up to a slot for each block."""
        model = self.model
        biases = [Slot(block.attn, "relative_position_bias_table") for block in model.blocks]
        return self.one_branch(
            prefix=model.num_prefix_tokens,
            table_prefix=model.num_prefix_tokens,
            own=[*biases, Slot(model, "rel_pos_bias")],
        )

    def set_geometry(self, size: Grid) -> None:
        """The patch embedding's size, and the windows of the biases that are in place."""
        from timm.models.beit import gen_relative_position_index

        self.model.patch_embed.set_input_size(img_size=tuple(size))
        window = self.model.patch_embed.grid_size
        for module in (*(block.attn for block in self.model.blocks), self.model.rel_pos_bias):
            table = getattr(module, "relative_position_bias_table", None)
            if table is None or module.window_size == window:
                continue
            module.relative_position_bias_table = _resized_bias(table, module.window_size, window)
            module.window_size = window
            module.num_relative_distance = len(module.relative_position_bias_table)
            module.window_area = window[0] * window[1]
            module.relative_position_index = gen_relative_position_index(window, device=table.device)

    def known_attentions(self) -> tuple[type, ...]:
        """BEiT's own."""
        from timm.models.beit import Attention

        return (Attention,)


@register_adapter
class SwinRefusal(Adapter):
    """Swin cannot take part, and says why."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """Swin and Swin v2."""
        return is_timm(model, "swin_transformer", "SwinTransformer") or is_timm(
            model, "swin_transformer_v2", "SwinTransformerV2"
        )

    def branches(self) -> list[Branch]:
        """None that would make sense."""
        raise LoopeError(
            f"{type(self.model).__name__} attends within shifted windows and merges patches between stages, so it has "
            "no one grid of patches that an encoder could be attached to; use a ViT, DeiT, CaiT, CrossViT, BEiT or EVA."
        )


def _resized_bias(table: nn.Parameter, old: tuple[int, int], new: tuple[int, int]) -> nn.Parameter:
    """BEiT's table has a row for each offset, which form a grid of their own, and three for the class token."""
    offsets = [Grid(2 * height - 1, 2 * width - 1) for height, width in (old, new)]
    with torch.no_grad():
        moved = torch.cat((resample(table[: offsets[0].size], *offsets), table[offsets[0].size :]))
    return nn.Parameter(moved, table.requires_grad)
