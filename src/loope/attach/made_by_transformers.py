"""ViT and DeiT models of transformers; see `loope.attach.libraries`."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid


def describe(model: Any, size: Grid, channels: int, args: dict[str, Any]) -> dict[str, Any]:
    """Class and configuration, which hold all there is to know."""
    return {"class": type(model).__name__, "config": {**model.config.to_dict(), "image_size": list(size)}}


def build(about: dict[str, Any]) -> nn.Module:
    """From the configuration."""
    try:
        import transformers
        from transformers import DeiTPreTrainedModel, ViTPreTrainedModel
    except ImportError:
        raise LoopeError("The file's model is one of transformers': pip install 'loope[models]'.") from None

    cls = getattr(transformers, about["class"], None)
    known = isinstance(cls, type) and issubclass(cls, (ViTPreTrainedModel, DeiTPreTrainedModel))
    require(known, f"transformers has no ViT or DeiT model class {about['class']!r}.")
    config = {key: value for key, value in about["config"].items() if "attn_implementation" not in key}
    model: nn.Module = cls(cls.config_class.from_dict(config))  # type: ignore[union-attr,misc]
    return model
