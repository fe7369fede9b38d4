"""Swin and Swin v2: a branch for each stage, whose blocks attend in shifted windows.

Additive encoders act on the first grid, rotary and bias encoders within a window, conditional ones on a stage's grid.
In a shifted window, only neighbours in the image see each other: their distance in the window is that in the image.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.grid import Grid
from loope.positions import Positions
from loope.surgery.adapters.attention import add_masks, attends, join_heads, project
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch, PositionCall, Slot
from loope.surgery.adapters.timm import TimmAdapter, is_timm, resized_bias, square

TABLE = "relative_position_bias_table"


class NoBias(nn.Module):
    """Stands in for the network of Swin v2's relative bias."""

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def forward(self, offsets: Tensor) -> Tensor:
        """Return the same for all offsets `(..., 2)`."""
        return offsets.new_zeros(*offsets.shape[:-1], self.heads)


@register_adapter
class SwinAdapter(TimmAdapter):
    """SwinTransformer and SwinTransformerV2."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "swin_transformer", "SwinTransformer") or is_timm(
            model, "swin_transformer_v2", "SwinTransformerV2"
        )

    def branches(self) -> list[Branch]:
        return [self._stage(number) for number in range(len(self.model.layers))]

    def _stage(self, number: int) -> Branch:
        model, stage = self.model, self.model.layers[number]
        attentions = [block.attn for block in stage.blocks]
        return Branch(
            patch_embed=stage.downsample if number else model.patch_embed,
            blocks=list(stage.blocks),
            attentions=attentions,
            dim=attentions[0].dim,
            heads=attentions[0].num_heads,
            grid=Grid(*stage.output_resolution),
            patch_size=square(model.patch_embed.patch_size) * 2**number,
            channels=model.in_chans,
            own=[_own_bias(each) for each in attentions],
            additive=number == 0,
            name=f"stage_{number}",
        )

    def positions(self, branch: Branch, tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Positions]:
        if branch.additive:
            return super().positions(branch, tokens, *args, **kwargs)
        return None, Positions((Grid(*tokens.shape[1:3]),))

    def window(self, block: Any) -> Grid:
        return Grid(*block.window_size)

    def set_geometry(self, size: Grid) -> None:
        """Keep the windows, unless a grid is smaller."""
        model = self.model
        windows = getattr(model, "_ref_window_sizes", [stage.blocks[0].window_size for stage in model.layers])
        grid = Grid(size.height // model.patch_embed.patch_size[0], size.width // model.patch_embed.patch_size[1])
        for number, (stage, window) in enumerate(zip(model.layers, windows, strict=True)):
            for block in stage.blocks:
                block.input_resolution = tuple(-(-length // 2**number) for length in grid)
                if hasattr(block.attn, TABLE):
                    _set_window(block.attn, block._calc_window_shift(window)[0])
        # The class's, since the method of an attached model also resizes the encoders.
        type(model).set_input_size(model, img_size=tuple(size), window_size=windows)


def _own_bias(attention: Any) -> Slot:
    """Return where the relative bias is: of Swin a table, of Swin v2 a network."""
    if hasattr(attention, TABLE):
        return Slot(attention, TABLE, torch.zeros_like(getattr(attention, TABLE)))
    return Slot(attention, "cpb_mlp", NoBias(attention.num_heads))


def _set_window(attention: Any, window: tuple[int, int]) -> None:
    """Change the window of Swin's attention; timm's method makes a parameter of zeros that stand in for the table."""
    from timm.models.swin_transformer import get_relative_position_index

    if window == attention.window_size:
        return
    table = getattr(attention, TABLE)
    moved = resized_bias(table, attention.window_size, window)
    setattr(attention, TABLE, moved if isinstance(table, nn.Parameter) else moved.detach())
    attention.window_size, attention.window_area = window, window[0] * window[1]
    attention.relative_position_index = get_relative_position_index(*window, device=table.device)


@attends("timm.models.swin_transformer.WindowAttention")
def attend_window(attention: Any, position: PositionCall, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Run Swin's attention on windows `(B * windows, tokens, D)`."""
    q, k, v = project(attention, x)
    q, k, bias = position(q, k)
    bias = add_masks(bias, position.own(attention._get_rel_pos_bias()))
    return _mixed(attention, (q * attention.scale) @ k.transpose(-2, -1), bias, mask, v)


@attends("timm.models.swin_transformer_v2.WindowAttention")
def attend_window_v2(attention: Any, position: PositionCall, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Run Swin v2's attention, on cosines, on windows `(B * windows, tokens, D)`."""
    q, k, v = project(attention, x)
    q, k, bias = position(F.normalize(q, dim=-1), F.normalize(k, dim=-1))
    scale = attention.logit_scale.clamp(max=math.log(100)).exp()
    offsets = attention.cpb_mlp(attention.relative_coords_table).flatten(0, -2)
    own = 16 * offsets[attention.relative_position_index].permute(2, 0, 1).sigmoid()  # (heads, tokens, tokens)
    bias = add_masks(bias, position.own(own[None]))
    return _mixed(attention, (q @ k.transpose(-2, -1)) * scale, bias, mask, v)


def _mixed(attention: Any, scores: Tensor, bias: Tensor | None, mask: Tensor | None, v: Tensor) -> Tensor:
    """Add bias and mask to the scores, and mix the values; timm uses no fused kernel here."""
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = (scores.view(-1, len(mask), *scores.shape[1:]) + mask[:, None]).flatten(0, 1)
    weights = attention.attn_drop(scores.softmax(dim=-1))
    mixed = join_heads((weights @ v).transpose(1, 2))
    projected: Tensor = attention.proj_drop(attention.proj(mixed))
    return projected
