"""Hiera, which takes additive encoders, and the reasons why some other models of timm take none."""

from __future__ import annotations

import torch
from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.surgery.adapters.base import Adapter, register_adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.adapters.timm import TimmAdapter, is_timm, square

POOLS = "between its stages, it attends from pooled queries, which lie between the cells of a grid"
UNROLLS = "its tokens are not in the order of a grid, and become fewer from stage to stage"
# Models with one grid of patches whose blocks do not attend over it as those of a ViT do.
REASONS = {
    ("xcit", "Xcit"): "it attends over channels, not over patches, and has convolutions in every block",
    ("tnt", "TNT"): "its patch tokens are made of pixel tokens in every block, which attend within each patch",
    ("convit", "ConVit"): "its class token joins the patches after most blocks, which mix two kinds of attention",
    ("gemma4_vit", "Gemma4VitEncoder"): "its patch embedding adds its own positions before it returns the patches",
    ("gemma4_vit", "Gemma4VitClassifier"): "its patch embedding adds its own positions before it returns the patches",
}


@register_adapter
class HieraAdapter(TimmAdapter):
    """Hiera: additive encoders on the first grid."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "hiera", "Hiera")

    def branches(self) -> list[Branch]:
        model, stem = self.model, self.model.patch_embed.proj
        require(stem.weight.dim() == 4, "Only a Hiera of images is supported, not one of videos.")
        grid = Grid(*model.tokens_spatial_shape)
        # A table of windows is tiled and added to one of the image, of another grid; without it, the other is added.
        tiled = model.pos_embed_win is not None
        zeros = torch.zeros(1, grid.size, stem.out_channels, device=stem.weight.device, dtype=stem.weight.dtype)
        windows = [Slot(model, "pos_embed", zeros), Slot(model, "pos_embed_win")] if tiled else []
        return [
            Branch(
                patch_embed=model.patch_embed,
                blocks=list(model.blocks),
                attentions=[block.attn for block in model.blocks],
                dim=stem.out_channels,
                heads=model.blocks[0].attn.heads,
                grid=grid,
                patch_size=square(model.patch_stride),
                channels=model.in_chans,
                table=None if tiled else Slot(model, "pos_embed"),
                axis_tables=windows,
                refused={"rotate": POOLS, "bias": POOLS, "mix": UNROLLS},
            )
        ]

    def set_geometry(self, size: Grid) -> None:
        now = self.branches()[0].pixels
        require(size == now, f"A Hiera is made for one size, {now}; create one with img_size={tuple(size)}.")


@register_adapter
class Refusal(Adapter):
    """Explains why a model is not supported."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return any(is_timm(model, *place) for place in REASONS)

    def branches(self) -> list[Branch]:
        reason = next(reason for place, reason in REASONS.items() if is_timm(self.model, *place))
        raise LoopeError(f"Cannot attach to {type(self.model).__name__}: {reason}.")
