"""Models inside other modules, and features that timm takes out of a model."""

from __future__ import annotations

import sys

from torch import nn

from loope.core.errors import require, told
from loope.surgery.adapters.base import WrapperAdapter, register_adapter


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel, DataParallel and torch.compile, which have no weights of their own."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # not imported for the question: it takes seconds
    compiled = () if dynamo is None else (dynamo.OptimizedModule,)
    while True:
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        elif isinstance(model, compiled):
            model = model._orig_mod
        else:
            return model


def require_merged(model: nn.Module) -> None:
    """Raise `LoopeError` if PEFT's modules are in the model: a file could not say how to build them again."""
    require(isinstance(model, nn.Module), f"Expected a model (torch.nn.Module), got {told(model)}.")
    strange = next((each for each in model.modules() if type(each).__module__.startswith("peft.")), None)
    require(
        strange is None,
        f"Expected a model without PEFT's modules, found a {type(strange).__name__}: merge them with `merged = "
        "peft_model.merge_and_unload()` and save `merged`, or save the adapter alone with PEFT's save_pretrained.",
    )


@register_adapter
class FeaturesAdapter(WrapperAdapter):
    """What `timm.create_model(..., features_only=True)` makes of a transformer."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """Feature getters; timm is not imported for the question."""
        home = sys.modules.get("timm.models._features")
        return home is not None and isinstance(model, home.FeatureGetterNet)

    def inner(self) -> nn.Module:
        """The transformer."""
        inner: nn.Module = self.model.model  # type: ignore[assignment]
        return inner
