"""The attention modules of transformers' vision transformers, with positions: their own layers around its kernels."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.encoders.base import KINDS
from loope.surgery.adapters.attention import add_masks, as_wide, attends, join_heads
from loope.surgery.adapters.branch import PositionCall

# What the modules call the same thing.
PROJECTIONS = ("q_proj", "k_proj", "v_proj"), ("query", "key", "value")
OUTPUTS = "o_proj", "out_proj", "projection_layer"
HEAD_DIMS = "head_dim", "attention_head_size"
SCALES = "scaling", "scale"
DROPOUTS = "attention_dropout", "dropout_prob", "dropout"


def attend(
    attention: Any,
    position: PositionCall,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_embeddings: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Run an attention module with positions, by the attention implementation that its config names.

    One function serves all families, since each has a subset of the same steps.
    """
    q, k, v = project(attention, hidden_states)
    if position_embeddings is not None:
        cos, sin = position_embeddings
        cos, sin = position.own(cos, 1.0), position.own(sin)
        q, k = _own_rotation(q, cos, sin), _own_rotation(k, cos, sin)
    mixed, weights = mix(attention, position, (q, k, v), attention_mask, **kwargs)
    output = _named(attention, OUTPUTS)
    if output is not None:
        mixed = output(mixed)
    if hasattr(attention, "projection_dropout"):
        mixed = attention.projection_dropout(mixed)
    return mixed, weights


@attends(
    "transformers.models.data2vec.modeling_data2vec_vision.Data2VecVisionSelfAttention",
    "transformers.models.data2vec.modeling_data2vec_vision.Data2VecVisionSdpaSelfAttention",
)
def attend_data2vec(
    attention: Any,
    position: PositionCall,
    hidden_states: Tensor,
    output_attentions: bool = False,
    relative_position_bias: Tensor | None = None,
    interpolate_pos_encoding: bool = False,
    resolution: tuple[int, int] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Run Data2Vec's attention with positions; it computes its own bias, if that is there."""
    own = getattr(attention, "relative_position_bias", None)
    bias = None
    if own is not None and resolution is not None:
        window = tuple(length // attention.config.patch_size for length in resolution)
        bias = own(window, interpolate_pos_encoding, dim_size=hidden_states.shape[1])
    bias = add_masks(bias, relative_position_bias)
    return mix(attention, position, project(attention, hidden_states), bias)


def check_bias(implementation: str) -> None:
    """Refuse flash attention, which would leave the bias out.

    Raises:
        LoopeError: naming the attention implementations that add a bias.
    """
    takes = ", ".join(kind for kind in KINDS.values() if kind != "bias")
    require(
        "flash" not in implementation,
        f"{implementation!r} cannot add a bias to the scores; it takes encoders of the kinds {takes}. For a bias, call "
        "model.set_attn_implementation('sdpa'), 'eager' or 'flex_attention'.",
    )


class NoRotation(nn.Module):
    """Stands for a rotary module that was set aside: cosines and sines that rotate nothing."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return ones and zeros, a row for each of the positions; without them one, as for the last patch alone."""
        shape = (1 if positions is None else len(positions), self.width)
        return x.new_ones(shape), x.new_zeros(shape)


def project(attention: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values, `(B, heads, tokens, d)` each."""
    names = next(names for names in PROJECTIONS if hasattr(attention, names[0]))
    q, k, v = (getattr(attention, name)(x) for name in names)
    if hasattr(attention, "q_norm"):  # over all heads
        q, k = attention.q_norm(q), attention.k_norm(k)
    shape = (*x.shape[:-1], -1, _named(attention, HEAD_DIMS))
    q, k, v = (each.reshape(shape).transpose(1, 2) for each in (q, k, v))
    return q, k, v


def mix(
    attention: Any,
    position: PositionCall,
    projected: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return the values mixed by the scores, `(B, tokens, D)`, and the scores' softmax if the kernel has it."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    q, k, v = projected
    q, k, bias = position(q, k)
    implementation = attention.config._attn_implementation
    if bias is not None:
        check_bias(implementation)
    interface = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, _eager(attention))
    if bias is not None:
        if implementation == "flex_attention":  # the mask is a `BlockMask`, to which nothing can be added
            _require_position_bias(interface)
            kwargs["position_bias"] = bias.expand(len(q), -1, -1, -1)
        else:
            mask = add_masks(bias, mask)
    dropout = _named(attention, DROPOUTS)
    dropout = dropout.p if isinstance(dropout, nn.Dropout) else dropout
    scale = _named(attention, SCALES)
    # The scale is explicit, since an encoder may have widened queries and keys.
    kwargs["scaling"] = _named(attention, HEAD_DIMS) ** -0.5 if scale is None else scale
    kwargs["dropout"] = dropout if attention.training else 0.0
    kwargs["is_causal"] = False  # the default of modules that do not say so
    mixed, weights = interface(attention, q, k, as_wide(v, q), mask, **kwargs)
    return join_heads(mixed[..., : v.shape[-1]]), weights


def _eager(attention: Any) -> Any:
    """Return the plain attention function of the module's own file, or ViT's."""
    own = getattr(sys.modules[type(attention).__module__], "eager_attention_forward", None)
    if own is None:
        from transformers.models.vit.modeling_vit import eager_attention_forward as own
    return own


def _own_rotation(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the last tokens of `x` `(B, heads, tokens, d)`, as many as the cosines and sines `(n, d)` have rows."""
    count = x.shape[-2] - cos.shape[-2]
    turned = x[..., count:, :]
    first, second = turned.chunk(2, dim=-1)
    turned = (turned * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)
    return torch.cat((x[..., :count, :], turned), dim=-2) if count else turned


def _named(module: Any, names: Iterable[str]) -> Any:
    """Return the first of several attributes that a module has, or None."""
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _require_position_bias(interface: Any) -> None:
    """Check that FlexAttention's interface adds a bias, since older ones ignore arguments that they do not know."""
    if "position_bias" not in inspect.signature(interface).parameters:
        raise LoopeError(
            "'flex_attention' of this version of transformers cannot add a bias to the scores; use a newer one, or "
            "call model.set_attn_implementation('sdpa')."
        )
