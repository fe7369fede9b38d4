"""From the names of a run to the model that is trained."""

from __future__ import annotations

import torch
from torch import nn

from loope.lab.experiments.segmentation import build_segmentation
from loope.lab.experiments.spec import Run
from loope.lab.experiments.timm_models import create_timm
from loope.segmentation.labels import Labels
from loope.surgery.attach import attach


def build_model(run: Run, classes: int | Labels) -> nn.Module:
    """The model of a run with its encoder attached, from the run's seed.

    Args:
        run: what to build.
        classes: outputs of the model's head; for segmentation its classes by name.

    Raises:
        LoopeError: if model, weights or encoder cannot be had.
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
