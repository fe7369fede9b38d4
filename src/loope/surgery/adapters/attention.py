"""Forward passes of attention modules with positions: the modules' own layers around one fused kernel.

`@attends` registers a function for classes of attention modules; adapters find it by the class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from loope.core.errors import require
from loope.surgery.adapters.branch import PositionCall

ATTENDS: dict[tuple[str, str], Callable[..., Any]] = {}  # by module and name of the class
Function = TypeVar("Function", bound=Callable[..., Any])


def attends(*classes: str) -> Callable[[Function], Function]:
    """Register a function as the forward pass, with positions, of attention classes (a decorator).

    It is called with the module, a `PositionCall` and what the module is called with; see `Adapter.attend`.

    Args:
        classes: the module and name of each class, such as "timm.models.beit.Attention", which is not imported.
    """

    def register(function: Function) -> Function:
        for name in classes:
            module, _, cls = name.rpartition(".")
            ATTENDS[module, cls] = function
        return function

    return register


def known_attentions() -> tuple[type, ...]:
    """Return the registered attention classes whose modules are imported."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in ATTENDS)
    return tuple(cls for cls in found if cls is not None)


def attend_as(cls: type, default: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function that is registered for an attention class, else the default."""
    return ATTENDS.get((cls.__module__, cls.__name__), default) if default else ATTENDS[cls.__module__, cls.__name__]


@attends(
    "timm.layers.attention.Attention",
    "timm.layers.attention.AttentionRope",
    "timm.models.eva.EvaAttention",
    "timm.models.beit.Attention",
)
def attend(
    attention: Any,
    position: PositionCall,
    x: Tensor,
    rope: Tensor | None = None,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    shared_rel_pos_bias: Tensor | None = None,
) -> Tensor:
    """Run timm's `Attention`, `AttentionRope`, `EvaAttention` or BEiT's attention with positions.

    One function serves all four, since each has a subset of the same steps.
    """
    require_not_causal(is_causal)
    gate = getattr(attention, "gate", None)
    opening = gate(x).sigmoid() if gate is not None else None
    q, k, v = project(attention, x)
    if rope is not None:
        rope = own_rotation_at_strength(position, rope)
        q, k = (_own_rotation(attention, each, rope).type_as(v) for each in (q, k))
    q, k, bias = position(q, k)
    if getattr(attention, "relative_position_bias_table", None) is not None:
        bias = add_masks(bias, position.own(attention._get_rel_pos_bias()))
    if shared_rel_pos_bias is not None:
        bias = add_masks(bias, position.own(shared_rel_pos_bias))
    mixed = fused(attention, q, k, v, add_masks(bias, attn_mask))
    mixed = attention.norm(mixed) if hasattr(attention, "norm") else mixed
    mixed = mixed if opening is None else mixed * opening
    projected: Tensor = attention.proj_drop(attention.proj(mixed))
    return projected


def fused(attention: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Attend with one fused kernel; return `(B, tokens, D)`."""
    dropout = attention.attn_drop.p if attention.training else 0.0
    # The scale is explicit, since an encoder may have widened queries and keys.
    mixed = F.scaled_dot_product_attention(
        q, k, as_wide(v, q), attn_mask=bias, dropout_p=dropout, scale=attention.scale
    )
    return join_heads(mixed[..., : v.shape[-1]].transpose(1, 2))


def require_not_causal(is_causal: bool) -> None:
    """Refuse causal attention."""
    require(
        not is_causal, "Causal attention has no meaning with positions on a grid; call the model without is_causal."
    )


def project(attention: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values, `(B, heads, tokens, d)` each.

    Layers are called as modules instead of reading their weights, so that hooks, LoRA and quantized layers take effect.
    """
    heads = attention.num_heads
    if attention.qkv is None:
        q, k, v = (_heads(layer(x), attention) for layer in (attention.q_proj, attention.k_proj, attention.v_proj))
    else:
        packed = attention.qkv(x)
        if getattr(attention, "q_bias", None) is not None:  # EVA and BEiT store the bias outside the layer
            bias = torch.cat((attention.q_bias, attention.k_bias, attention.v_bias))
            packed = packed + bias.to(packed.dtype)
        q, k, v = packed.reshape(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    if hasattr(attention, "q_norm"):
        q, k = attention.q_norm(q), attention.k_norm(k)
    if k.shape[1] != heads:  # grouped-query attention
        k, v = (each.repeat_interleave(heads // each.shape[1], dim=1) for each in (k, v))
    return q, k, v


@attends("timm.models.cait.TalkingHeadAttn")
def attend_talking_heads(attention: Any, position: PositionCall, x: Tensor) -> Tensor:
    """Run CaiT's talking-heads attention with positions.

    It mixes the heads' scores before and after the softmax, so no fused kernel applies.
    """
    batch, tokens, dim = x.shape
    q, k, v = attention.qkv(x).reshape(batch, tokens, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    q, k, bias = position(q, k)
    scores = (q * attention.scale) @ k.transpose(-2, -1)
    if bias is None:
        mixed_scores = attention.proj_l(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    else:
        # Hide after heads are mixed: a sum of infinities of both signs is not a number.
        hidden = bias.isneginf()
        scores = scores + bias.masked_fill(hidden, 0)
        mixed_scores = attention.proj_l(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        mixed_scores = mixed_scores.masked_fill(hidden, float("-inf"))
    weights = mixed_scores.softmax(dim=-1)
    weights = attention.attn_drop(attention.proj_w(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
    mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, dim)
    projected: Tensor = attention.proj_drop(attention.proj(mixed))
    return projected


def as_wide(values: Tensor, queries: Tensor) -> Tensor:
    """Append channels of zeros to the values, if an encoder has widened the queries; they come out as zeros.

    Flash attention needs values of the same width; other fused kernels are faster with them.
    """
    more = queries.shape[-1] - values.shape[-1]
    return F.pad(values, (0, more)) if more else values


def join_heads(mixed: Tensor) -> Tensor:
    """Reshape `(B, tokens, heads, d)` to `(B, tokens, D)`.

    The memory layout of the fused kernel's result depends on whether the bias requires gradients; a graph captured
    without gradients must not rely on it.
    """
    if torch.compiler.is_compiling():
        mixed = mixed.clone(memory_format=torch.contiguous_format)
    return mixed.flatten(2)


def add_masks(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Add two masks, each additive or boolean (True: visible), in the dtype of the first that is additive.

    None stands for no mask.
    """
    if a is None or b is None:
        return b if a is None else a
    dtype = b.dtype if a.dtype == torch.bool else a.dtype
    return (_additive(a, dtype) + _additive(b, dtype)).to(dtype)


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype if dtype.is_floating_point else torch.float32).masked_fill(
        ~mask, float("-inf")
    )


def own_rotation_at_strength(position: PositionCall, rope: Tensor) -> Tensor:
    """Scale timm's sines and cosines, concatenated, towards no rotation."""
    half = rope.shape[-1] // 2
    nothing = torch.cat((rope.new_zeros(half), rope.new_ones(half)))
    return position.own(rope, nothing)


def _heads(x: Tensor, attention: Any) -> Tensor:
    return x.reshape(*x.shape[:2], -1, attention.head_dim).transpose(1, 2)


def _own_rotation(attention: Any, x: Tensor, rope: Tensor) -> Tensor:
    from timm.layers import apply_rot_embed_cat

    count, half = attention.num_prefix_tokens, getattr(attention, "rotate_half", False)
    return torch.cat((x[:, :, :count], apply_rot_embed_cat(x[:, :, count:], rope, half=half)), dim=2)
