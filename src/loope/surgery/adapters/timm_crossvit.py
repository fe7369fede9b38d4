"""CrossViT: two branches with different patch sizes and widths, each with its own encoder."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.adapters.timm import TimmAdapter, is_timm, square


@register_adapter
class CrossVitAdapter(TimmAdapter):
    """One branch per patch size; the fusion between them exchanges class tokens only and stays as it is."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "crossvit", "CrossVit")

    def branches(self) -> list[Branch]:
        return [self._branch(number) for number in range(self.model.num_branches)]

    def _branch(self, number: int) -> Branch:
        model, patches = self.model, self.model.patch_embed[number]
        blocks = [block for stage in model.blocks for block in stage.blocks[number]]
        side = square(patches.patch_size)
        first: Any = patches.proj[0] if isinstance(patches.proj, nn.Sequential) else patches.proj
        return Branch(
            patch_embed=patches,
            blocks=blocks,
            attentions=[block.attn for block in blocks],
            dim=model.embed_dim[number],
            heads=blocks[0].attn.num_heads,
            grid=Grid(patches.img_size[0] // side, patches.img_size[1] // side),
            patch_size=side,
            channels=first.in_channels,
            prefix=1,
            table=Slot(model, f"pos_embed_{number}"),
            table_prefix=1,
            entry=model.pos_drop,
            name=f"branch_{number}",
        )

    def set_geometry(self, size: Grid) -> None:
        model = self.model
        if not hasattr(model, "img_scales"):  # of the original size: scales computed from rounded sizes would drift
            model.img_scales = [scaled[0] / model.img_size[0] for scaled in model.img_size_scaled]
        model.img_size = tuple(size)
        model.img_size_scaled = []
        for patches, scale in zip(model.patch_embed, model.img_scales, strict=True):
            side = square(patches.patch_size)
            # A scaled size that is no multiple of the patch size would cut off part of the image.
            scaled = tuple(max(side, round(length * scale / side) * side) for length in size)
            model.img_size_scaled.append(scaled)
            patches.img_size = scaled
            patches.num_patches = (scaled[0] // side) * (scaled[1] // side)
