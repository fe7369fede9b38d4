"""timm's plain transformers: VisionTransformer (ViT, DeiT, distilled), Eva and Beit."""

from __future__ import annotations

from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.adapters.timm import TimmAdapter, is_timm, patch_drop, resized_bias


@register_adapter
class PlainAdapter(TimmAdapter):
    """VisionTransformer (ViT, DeiT, distilled DeiT) and Eva: one sequence, prefix tokens before the patches."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "vision_transformer", "VisionTransformer") or is_timm(model, "eva", "Eva")

    def branches(self) -> list[Branch]:
        model = self.model
        return self.one_branch(
            prefix=model.num_prefix_tokens,
            table_prefix=0 if model.no_embed_class else model.num_prefix_tokens,
            patch_drop=patch_drop(model),
            own=[Slot(model, "rope")] if hasattr(model, "rope") else [],
        )

    def set_geometry(self, size: Grid) -> None:
        self.model.patch_embed.set_input_size(img_size=tuple(size))
        if getattr(self.model, "rope", None) is not None:
            self.model.rope.update_feat_shape(list(self.model.patch_embed.grid_size))


@register_adapter
class BeitAdapter(TimmAdapter):
    """BEiT and BEiT v2: a relative bias per block, or one shared by all, with or without a position table."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "beit", "Beit")

    def branches(self) -> list[Branch]:
        model = self.model
        biases = [Slot(block.attn, "relative_position_bias_table") for block in model.blocks]
        return self.one_branch(
            prefix=model.num_prefix_tokens,
            table_prefix=model.num_prefix_tokens,
            own=[*biases, Slot(model, "rel_pos_bias")],
        )

    def set_geometry(self, size: Grid) -> None:
        from timm.models.beit import gen_relative_position_index

        self.model.patch_embed.set_input_size(img_size=tuple(size))
        window = self.model.patch_embed.grid_size
        for module in (*(block.attn for block in self.model.blocks), self.model.rel_pos_bias):
            table = getattr(module, "relative_position_bias_table", None)
            if table is None or module.window_size == window:
                continue
            module.relative_position_bias_table = resized_bias(table, module.window_size, window)
            module.window_size = window
            module.num_relative_distance = len(module.relative_position_bias_table)
            module.window_area = window[0] * window[1]
            module.relative_position_index = gen_relative_position_index(window, device=table.device)
