"""SETR and Segmenter in files; see `loope.surgery.adapters.libraries`."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.core.errors import one_of
from loope.core.grid import Grid
from loope.segmentation.labels import Labels
from loope.segmentation.segmenter import Segmenter
from loope.segmentation.setr import SETR
from loope.surgery.adapters import libraries

MODELS: dict[str, type[SETR] | type[Segmenter]] = {"SETR": SETR, "Segmenter": Segmenter}


def describe(model: Any, size: Grid, channels: int, args: dict[str, Any]) -> dict[str, Any]:
    """The class, its arguments, and the backbone by its own library's maker."""
    one_of("model of loope", type(model).__name__, MODELS)
    return {
        "class": type(model).__name__,
        "backbone": libraries.describe(model.backbone, size, channels, args),
        "labels": model.labels.as_dict(),
        "options": model.options,
    }


def build(about: dict[str, Any]) -> nn.Module:
    """The backbone first, then the model around it."""
    one_of("model of loope", about["class"], MODELS)
    return MODELS[about["class"]](libraries.build(about["backbone"]), Labels(**about["labels"]), **about["options"])
