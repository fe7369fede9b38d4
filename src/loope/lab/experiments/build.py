"""Build the model of a run."""

from __future__ import annotations

import torch
from torch import nn

from loope.lab.experiments.segmentation import build_segmentation
from loope.lab.experiments.spec import Run
from loope.lab.experiments.timm_models import create_timm
from loope.segmentation.labels import Labels
from loope.surgery.attach import attach


def build_model(run: Run, classes: int | Labels) -> nn.Module:
    """Build the model of a run with its encoder attached, seeded by the run.

    Args:
        run: specification of the run.
        classes: number of outputs; for segmentation the classes.

    Raises:
        LoopeError: if model, weights or encoder are not available.
    """
    torch.manual_seed(run.seed)
    size = run.data.options.get("image_size")
    if isinstance(classes, int):
        model = create_timm(run.model, num_classes=classes, **({} if size is None else {"img_size": size}))
    else:
        model = build_segmentation(run.model, classes, run.data.options["image_size"])
    if run.encoder.name != "own":
        alone = run.recipe is not None and run.recipe.train == "encoder"
        attach(model, run.encoder.name, freeze_backbone=alone, **run.encoder.options)
    return model
