"""Forward passes, with positions, of the attention modules that only some of timm's models have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from loope.surgery.adapters.attention import (
    add_masks,
    attend,
    attends,
    fused,
    join_heads,
    own_rotation_at_strength,
    project,
    require_not_causal,
)
from loope.surgery.adapters.branch import PositionCall


@attends("timm.models.vision_transformer_relpos.RelPosAttention")
def attend_rel_pos(attention: Any, position: PositionCall, x: Tensor, shared_rel_pos: Tensor | None = None) -> Tensor:
    """Run the attention of `VisionTransformerRelPos`: a bias of its own, or one that all blocks share."""
    own = shared_rel_pos if attention.rel_pos is None else attention.rel_pos.get_bias()
    return attend(attention, position, x, shared_rel_pos_bias=own)


@attends("timm.models.vision_transformer_sam.Attention")
def attend_sam(attention: Any, position: PositionCall, x: Tensor) -> Tensor:
    """Run the attention of `VisionTransformerSAM` on `(B, h, w, D)`: a bias for each axis that reads the queries."""
    from timm.layers import apply_rot_embed_cat
    from timm.models.vision_transformer_sam import get_decomposed_rel_pos_bias

    size = x.shape[1], x.shape[2]
    q, k, v = project(attention, x.flatten(1, 2))
    own = None
    if attention.use_rel_pos:
        flat = get_decomposed_rel_pos_bias(q.flatten(0, 1), attention.rel_pos_h, attention.rel_pos_w, size, size)
        own = position.own(flat.view(*q.shape[:2], *flat.shape[1:]))
    elif attention.rope is not None:
        rope = own_rotation_at_strength(position, attention.rope.get_embed())
        q, k = (apply_rot_embed_cat(each, rope).type_as(v) for each in (q, k))
    q, k, bias = position(q, k)
    mixed = fused(attention, q, k, v, add_masks(bias, own))
    projected: Tensor = attention.proj_drop(attention.proj(mixed))
    return projected.view(x.shape)


@attends("timm.layers.diff_attention.DiffAttention")
def attend_diff(
    attention: Any, position: PositionCall, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Run differential attention with positions."""
    require_not_causal(is_causal)
    q, k, v = attention.qkv(x).chunk(3, dim=-1)
    mixed = difference(attention, position, q, k, v, attn_mask)
    projected: Tensor = attention.proj_drop(attention.proj(attention.norm(mixed)))
    return projected


@attends(
    "timm.models.vision_transformer.ParallelScalingBlock", "timm.models.vision_transformer.DiffParallelScalingBlock"
)
def attend_parallel(
    block: Any, position: PositionCall, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Run a block of attention and MLP side by side, between shared projections, with positions."""
    require_not_causal(is_causal)
    hidden, q, k, v = torch.split(block.in_proj(block.in_norm(x)), block.in_split, dim=-1)
    if block.mlp_bias is not None:
        hidden = hidden + block.mlp_bias
    if hasattr(block, "lambda_init"):
        mixed = difference(block, position, q, k, v, attn_mask)
    else:
        q, k, v = (each.reshape(*x.shape[:2], block.num_heads, -1) for each in (q, k, v))
        q, k, v = block.q_norm(q).transpose(1, 2), block.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        q, k, bias = position(q, k)
        mixed = fused(block, q, k, v, add_masks(bias, attn_mask))
    hidden = block.mlp_drop(block.mlp_act(hidden))
    if block.out_proj is not None:
        made = block.out_proj(torch.cat((mixed, hidden), dim=-1))
    else:
        made = block.attn_out_proj(mixed) + block.mlp_out_proj(hidden)
    result: Tensor = x + block.drop_path(block.ls(made))
    return result


def difference(
    attention: Any, position: PositionCall, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None
) -> Tensor:
    """Compute differential attention of `(B, tokens, D)` projections; each head has two maps, positions see both."""
    lead, heads = q.shape[:2], attention.num_heads
    q, k = (each.reshape(*lead, 2 * heads, -1).transpose(1, 2) for each in (q, k))
    v = v.reshape(*lead, heads, -1).transpose(1, 2)
    q, k, bias = position(attention.q_norm(q), attention.k_norm(k))
    dropout, maps = attention.attn_drop_p if attention.training else 0.0, []
    for half in (0, 1):
        seen = None if bias is None else bias[:, half::2]
        maps.append(
            F.scaled_dot_product_attention(
                q[:, half::2],
                k[:, half::2],
                v,
                attn_mask=add_masks(seen, attn_mask),
                dropout_p=dropout,
                scale=attention.scale,
            )
        )
    mixed = maps[0] - attention._compute_lambda().type_as(q) * maps[1]
    return join_heads((attention.sub_norm(mixed) * (1 - attention.lambda_init)).transpose(1, 2))
