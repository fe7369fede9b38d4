"""transformers' `TimmWrapperModel` and `TimmWrapperForImageClassification`: a timm model inside."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters.base import WrapperAdapter, register_adapter
from loope.surgery.adapters.transformers_build import BuiltByTransformers


@register_adapter
class TimmWrapperAdapter(BuiltByTransformers, WrapperAdapter):
    """Acts in the timm model; the configuration has its name and the arguments of `timm.create_model`."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        home = sys.modules.get("transformers.models.timm_wrapper.modeling_timm_wrapper")
        return home is not None and isinstance(model, home.TimmWrapperPreTrainedModel)

    def inner(self) -> nn.Module:
        inner: nn.Module = self.model.timm_model
        return inner

    def describe_config(self, size: Grid) -> dict[str, Any]:
        config: dict[str, Any] = self.model.config.to_dict()
        inside: Any = self.inside
        return {**config, "model_args": {**(config.get("model_args") or {}), **inside.size_args(size)}}
