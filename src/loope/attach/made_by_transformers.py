"""ViT and DeiT models of transformers; see `loope.attach.libraries`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid


def describe(model: Any, size: Grid, channels: int, args: dict[str, Any]) -> dict[str, Any]:
    """Class and configuration, which hold all there is to know."""
    return {"class": type(model).__name__, "config": {**model.config.to_dict(), "image_size": list(size)}}


def build(about: dict[str, Any]) -> nn.Module:
    """From the configuration."""
    cls = _model_class(about["class"])
    model: nn.Module = cls(_config(cls, about["config"]))
    return model


def with_weights(name: str, config: dict[str, Any], state: dict[str, Tensor]) -> nn.Module:
    """The model with weights under the names that transformers gives them in files, which are not those in the model.

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
        raise LoopeError("The file's model is one of transformers': pip install 'loope[models]'.") from None

    cls = getattr(transformers, name, None)
    known = isinstance(cls, type) and issubclass(cls, (ViTPreTrainedModel, DeiTPreTrainedModel))
    require(known, f"transformers has no ViT or DeiT model class {name!r}.")
    return cls


def _config(cls: Any, config: dict[str, Any]) -> Any:
    return cls.config_class.from_dict({key: value for key, value in config.items() if "attn_implementation" not in key})
