"""transformers' ViT and DeiT models, alone or under a classification head."""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor, nn

from loope.core.errors import require
from loope.core.grid import Grid, as_grid
from loope.surgery.adapters.base import Adapter, Branch, Slot, register_adapter
from loope.surgery.adapters.timm_attention import join_heads
from loope.surgery.adapters.timm_vit import square
from loope.surgery.masks import add_masks

FAMILIES = ("vit", "deit")


@register_adapter
class HuggingFaceAdapter(Adapter):
    """ViTModel, ViTForImageClassification, DeiTModel, DeiTForImageClassification and the like."""

    model: Any

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """Models of the two families; transformers is not imported for the question."""
        for family in FAMILIES:
            home = sys.modules.get(f"transformers.models.{family}.modeling_{family}")
            base = getattr(home, {"vit": "ViT", "deit": "DeiT"}[family] + "PreTrainedModel", None)
            if base is not None and isinstance(model, base):
                return True
        return False

    @property
    def core(self) -> Any:
        """The model without its head."""
        return self.model.base_model

    def branches(self) -> list[Branch]:
        """One."""
        config, embeddings = self.model.config, self.core.embeddings
        patches = embeddings.patch_embeddings
        require(
            getattr(embeddings, "mask_token", None) is None,
            "This model replaces masked patches after the patch embedding, where positions would be lost; attach to a "
            "model without mask token.",
        )
        prefix = 2 if hasattr(embeddings, "distillation_token") else 1
        side = square(patches.patch_size)
        height, width = as_grid(patches.image_size, "image_size")
        return [
            Branch(
                patch_embed=patches,
                blocks=list(self.core.layers),
                attentions=[layer.attention for layer in self.core.layers],
                dim=config.hidden_size,
                heads=config.num_attention_heads,
                grid=Grid(height // side, width // side),
                patch_size=side,
                channels=config.num_channels,
                prefix=prefix,
                table=Slot(embeddings, "position_embeddings"),
                table_prefix=prefix,
                entry=embeddings.dropout,
            )
        ]

    def attend(self, attention: Any, position: Any, *args: Any, **kwargs: Any) -> Any:
        """The layer's attention with positions, through the implementation that the model's config names."""
        return attend(attention, position, *args, **kwargs)

    def set_geometry(self, size: Grid) -> None:
        """The image size in embeddings and config."""
        embeddings = self.core.embeddings
        side = square(embeddings.patch_embeddings.patch_size)
        self.model.config.image_size = size.height if size.height == size.width else list(size)
        for module in (embeddings, embeddings.patch_embeddings):
            module.image_size = tuple(size)
        embeddings.patch_embeddings.num_patches = (size.height // side) * (size.width // side)


def attend(
    attention: Any, position: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """What `ViTAttention.forward` does, with positions."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.vit.modeling_vit import eager_attention_forward

    lead = hidden_states.shape[:-1]
    q, k, v = (
        layer(hidden_states).view(*lead, -1, attention.head_dim).transpose(1, 2)
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    q, k, bias = position(q, k)
    if bias is not None:
        attention_mask = add_masks(bias, attention_mask)
    interface = ALL_ATTENTION_FUNCTIONS.get_interface(attention.config._attn_implementation, eager_attention_forward)
    mixed, weights = interface(
        attention,
        q,
        k,
        v,
        attention_mask,
        dropout=attention.attention_dropout if attention.training else 0.0,
        scaling=attention.scaling,
        **kwargs,
    )
    return attention.o_proj(join_heads(mixed)), weights
