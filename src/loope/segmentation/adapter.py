"""How SETR and Segmenter are attached to, saved and loaded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from torch import nn

from loope.core.errors import one_of, require
from loope.core.grid import Grid
from loope.segmentation.backbone import SegmentationModel
from loope.segmentation.labels import Labels
from loope.segmentation.segmenter import Segmenter
from loope.segmentation.setr import SETR
from loope.surgery.adapters.base import WrapperAdapter, build_model, describe_model, register_adapter

MODELS: dict[str, type[SETR] | type[Segmenter]] = {"SETR": SETR, "Segmenter": Segmenter}


@register_adapter
class SegmentationAdapter(WrapperAdapter):
    """Encoders act in the backbone; the attachment belongs to the whole model."""

    model: SegmentationModel
    library: ClassVar[str] = "loope"

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return isinstance(model, SegmentationModel)

    def inner(self) -> nn.Module:
        backbone: nn.Module = self.model.backbone
        return backbone

    def describe(self, size: Grid, args: dict[str, Any]) -> dict[str, Any]:
        model = self.model
        require(
            type(model) in MODELS.values(),
            f"Can only save {' and '.join(MODELS)} themselves, got {type(model).__name__}; for others write an adapter "
            "with `describe` and `build`, or use safetensors.torch.save_model.",
        )
        return {
            "class": type(model).__name__,
            "backbone": describe_model(self.inside, size, args),
            "labels": asdict(model.labels),
            "options": model.options,
        }

    @classmethod
    def build(cls, about: dict[str, Any]) -> nn.Module:
        one_of("model of loope", about["class"], MODELS)
        return MODELS[about["class"]](build_model(about["backbone"]), Labels(**about["labels"]), **about["options"])
