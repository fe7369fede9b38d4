"""The attention modules of transformers' ViTDet and SAM, with positions: tokens `(B, h, w, D)` of a window or a grid.

Their own bias reads the queries, by a table of offsets for each axis.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from loope.surgery.adapters.attention import add_masks, as_wide, attends, join_heads
from loope.surgery.adapters.branch import PositionCall


@attends("transformers.models.vitdet.modeling_vitdet.VitDetAttention")
def attend_vitdet(
    attention: Any, position: PositionCall, hidden_state: Tensor, output_attentions: bool = False
) -> tuple[Tensor, ...]:
    """Run ViTDet's attention with positions."""
    q, k, v = _project(attention, hidden_state, attention.num_heads)
    turned_q, turned_k, bias = position(q, k)
    scores = (turned_q * attention.scale) @ turned_k.transpose(-2, -1)
    if attention.use_relative_position_embeddings:
        add_own: Any = sys.modules[type(attention).__module__].add_decomposed_relative_positions
        size, tables = hidden_state.shape[1:3], (attention.rel_pos_h, attention.rel_pos_w)
        added = add_own(scores.flatten(0, 1), q.flatten(0, 1), *tables, size, size)
        scores = position.own(added.view(scores.shape), scores)
    weights = (scores if bias is None else scores + bias).softmax(dim=-1)
    made = attention.proj(_grid(weights @ v, hidden_state))
    return (made, weights) if output_attentions else (made,)


@attends(
    "transformers.models.sam.modeling_sam.SamVisionAttention",
    "transformers.models.sam.modeling_sam.SamVisionSdpaAttention",
    "transformers.models.sam_hq.modeling_sam_hq.SamHQVisionAttention",
    "transformers.models.sam_hq.modeling_sam_hq.SamHQVisionSdpaAttention",
)
def attend_sam(
    attention: Any, position: PositionCall, hidden_states: Tensor, output_attentions: bool | None = None
) -> tuple[Tensor, Tensor | None]:
    """Run SAM's attention with positions, plain or fused as the class is."""
    q, k, v = _project(attention, hidden_states, attention.num_attention_heads)
    own = None
    if attention.use_rel_pos:
        size, tables = hidden_states.shape[1:3], (attention.rel_pos_h, attention.rel_pos_w)
        flat = attention.get_decomposed_rel_pos(q.flatten(0, 1), *tables, size, size)
        own = position.own(flat.reshape(*q.shape[:-1], -1))
    q, k, bias = position(q, k)
    bias = add_masks(own, bias)
    if "Sdpa" in type(attention).__name__:
        # Without a scale it is computed as in the model; an encoder may have widened queries and keys.
        scale = None if q.shape == v.shape else attention.scale
        mixed = F.scaled_dot_product_attention(q, k, as_wide(v, q), attn_mask=bias, scale=scale)
        return attention.proj(_grid(mixed[..., : v.shape[-1]], hidden_states)), None
    scores = (q * attention.scale) @ k.transpose(-2, -1)
    scores = scores if bias is None else scores + bias
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype)
    mixed = F.dropout(weights, p=attention.dropout, training=attention.training) @ v
    return attention.proj(_grid(mixed, hidden_states)), weights


def _project(attention: Any, x: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values of `(B, h, w, D)`, `(B, heads, h * w, d)` each."""
    packed = attention.qkv(x).reshape(len(x), x.shape[1] * x.shape[2], 3, heads, -1)
    q, k, v = packed.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
    return q, k, v


def _grid(mixed: Tensor, like: Tensor) -> Tensor:
    """Reshape `(B, heads, h * w, d)` to `(B, h, w, D)`."""
    return join_heads(mixed.transpose(1, 2)).view(like.shape)
