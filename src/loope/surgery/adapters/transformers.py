"""transformers' ViT and DeiT models, alone or under a classification head."""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar

from torch import Tensor, nn

from loope.core.errors import MissingPackageError, require
from loope.core.grid import Grid, as_grid
from loope.encoders.base import KINDS
from loope.surgery.adapters.attention import add_masks, as_wide, join_heads
from loope.surgery.adapters.base import Adapter, register_adapter
from loope.surgery.adapters.branch import Branch, PositionCall, Slot
from loope.surgery.adapters.timm import square

FAMILIES = ("vit", "deit")


@register_adapter
class HuggingFaceAdapter(Adapter):
    """ViTModel, ViTForImageClassification, DeiTModel, DeiTForImageClassification and the like."""

    model: Any
    library: ClassVar[str] = "transformers"

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        # transformers is slow to import, and no model of it exists before that.
        for family in FAMILIES:
            home = sys.modules.get(f"transformers.models.{family}.modeling_{family}")
            base = getattr(home, {"vit": "ViT", "deit": "DeiT"}[family] + "PreTrainedModel", None)
            if base is not None and isinstance(model, base):
                return True
        return False

    @property
    def core(self) -> Any:
        """Return the model without its head."""
        return self.model.base_model

    def branches(self) -> list[Branch]:
        config, embeddings = self.model.config, self.core.embeddings
        patches = embeddings.patch_embeddings
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
                add_at_entry=embeddings.mask_token is not None,  # which replaces masked patches
            )
        ]

    def attend(self, attention: Any, position: PositionCall, *args: Any, **kwargs: Any) -> Any:
        return attend(attention, position, *args, **kwargs)

    def check_bias(self) -> None:
        _check_bias(self.model.config._attn_implementation)

    def set_geometry(self, size: Grid) -> None:
        embeddings = self.core.embeddings
        side = square(embeddings.patch_embeddings.patch_size)
        self.model.config.image_size = size.height if size.height == size.width else list(size)
        for module in (embeddings, embeddings.patch_embeddings):
            module.image_size = tuple(size)
        embeddings.patch_embeddings.num_patches = (size.height // side) * (size.width // side)

    def describe(self, size: Grid, args: dict[str, Any]) -> dict[str, Any]:
        about = {
            "class": type(self.model).__name__,
            "config": {**self.model.config.to_dict(), "image_size": list(size)},
        }
        alone = self.core is self.model  # other classes know by themselves whether they mask patches
        return {**about, "mask_token": True} if alone and self.core.embeddings.mask_token is not None else about

    @classmethod
    def build(cls, about: dict[str, Any]) -> nn.Module:
        found = _model_class(about["class"])
        masks = {"use_mask_token": True} if about.get("mask_token") is True else {}
        model: nn.Module = found(_config(found, about["config"]), **masks)
        return model


def attend(
    attention: Any, position: PositionCall, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """Run `ViTAttention.forward` with positions, by the attention implementation that the config names."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.vit.modeling_vit import eager_attention_forward

    lead = hidden_states.shape[:-1]
    q, k, v = (
        layer(hidden_states).view(*lead, -1, attention.head_dim).transpose(1, 2)
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    q, k, bias = position(q, k)
    implementation = attention.config._attn_implementation
    if bias is not None:
        _check_bias(implementation)
    interface = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
    if bias is not None:
        if implementation == "flex_attention":  # the mask is a `BlockMask`, to which nothing can be added
            _require_position_bias(interface)
            kwargs["position_bias"] = bias.expand(len(q), -1, -1, -1)
        else:
            attention_mask = add_masks(bias, attention_mask)
    mixed, weights = interface(
        attention,
        q,
        k,
        as_wide(v, q),
        attention_mask,
        dropout=attention.attention_dropout if attention.training else 0.0,
        scaling=attention.scaling,
        **kwargs,
    )
    return attention.o_proj(join_heads(mixed[..., : v.shape[-1]])), weights


def _check_bias(implementation: str) -> None:
    """Refuse flash attention, which would leave the bias out."""
    takes = ", ".join(kind for kind in KINDS.values() if kind != "bias")
    require(
        "flash" not in implementation,
        f"{implementation!r} cannot add a bias to the scores; it takes encoders of the kinds {takes}. For a bias, call "
        "model.set_attn_implementation('sdpa'), 'eager' or 'flex_attention'.",
    )


def _require_position_bias(interface: Any) -> None:
    """Check that FlexAttention's interface adds a bias, since older ones ignore arguments that they do not know."""
    require(
        "position_bias" in inspect.signature(interface).parameters,
        "'flex_attention' of this version of transformers cannot add a bias to the scores; use a newer one, or call "
        "model.set_attn_implementation('sdpa').",
    )


def with_weights(name: str, config: dict[str, Any], state: dict[str, Tensor]) -> nn.Module:
    """Build a model and load weights that are named as in transformers' files, which differ from the model's names.

    Raises:
        LoopeError: if weights are missing, unknown or of another shape.
    """
    cls = _model_class(name)
    model, found = cls.from_pretrained(None, config=_config(cls, config), state_dict=state, output_loading_info=True)
    wrong = sorted(str(key) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in found[kind])
    require(not wrong, f"The weights are not those of a {name} with this configuration; see {', '.join(wrong[:3])}.")
    made: nn.Module = model
    return made


def _model_class(name: str) -> Any:
    try:
        import transformers
        from transformers import DeiTPreTrainedModel, ViTPreTrainedModel
    except ImportError:
        raise MissingPackageError("The file's model is one of transformers': pip install 'loope[models]'.") from None

    cls = getattr(transformers, name, None)
    known = isinstance(cls, type) and issubclass(cls, (ViTPreTrainedModel, DeiTPreTrainedModel))
    require(known, f"transformers has no ViT or DeiT model class {name!r}.")
    return cls


def _config(cls: Any, config: dict[str, Any]) -> Any:
    return cls.config_class.from_dict({key: value for key, value in config.items() if "attn_implementation" not in key})
