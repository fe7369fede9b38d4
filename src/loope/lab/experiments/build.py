"""From the names of a run to the model that is trained."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loope.core.errors import LoopeError, MissingPackageError
from loope.core.hub import hub_or_cache

if TYPE_CHECKING:
    from torch import nn

    from loope.lab.experiments.spec import Model, Run
    from loope.segmentation.labels import Labels


def build_model(run: Run, classes: int | Labels) -> nn.Module:
    """The model of a run with its encoder attached, from the run's seed.

    Args:
        run: what to build.
        classes: outputs of the model's head; for segmentation its classes by name.

    Raises:
        LoopeError: if model, weights or encoder cannot be had.
    """
    import torch

    from loope.surgery.attach import attach

    torch.manual_seed(run.seed)
    size = run.data.options.get("image_size")
    if isinstance(classes, int):
        model = create_timm(run.model, num_classes=classes, **({} if size is None else {"img_size": size}))
    else:
        from loope.lab.experiments.segmentation import build_segmentation

        model = build_segmentation(run.model, classes, run.data.options["image_size"])
    if run.encoder.name != "own":
        alone = run.recipe is not None and run.recipe.train == "encoder"
        attach(model, run.encoder.name, freeze_backbone=alone, **run.encoder.options)
    return model


def create_timm(spec: Model, **more: Any) -> nn.Module:
    """A model of timm, with pretrained weights where the spec asks for them.

    A file of the model's name among the local weights comes before a download.
    """
    try:
        import timm
    except ImportError:
        raise MissingPackageError("Experiments need timm: pip install 'loope[train]'.") from None

    options: dict[str, Any] = {**spec.options, **more}
    if spec.weights == "pretrained":
        file = local_weights(spec.name)
        if file is not None:
            # Some models would read their published weights in a format of their own.
            options["pretrained_cfg_overlay"] = {"file": str(file), "custom_load": False}
    make: Callable[..., nn.Module] = timm.create_model
    try:
        with hub_or_cache() if spec.weights == "pretrained" and file is None else nullcontext():
            return make(spec.name, pretrained=spec.weights == "pretrained", **options)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        if spec.weights == "scratch":
            raise LoopeError(f"timm cannot make {spec.name!r} with {options}: {error}") from error
        raise LoopeError(
            f"The pretrained weights of {spec.name!r} could not be had ({_first_line(error)}); "
            f"{where_to_put(spec.name)}."
        ) from error


def local_weights(name: str) -> Path | None:
    """The file of a model's weights in the folder that `LOOPE_WEIGHTS` names, if it is there."""
    folder = os.environ.get("LOOPE_WEIGHTS")
    file = Path(folder) / _file_name(name) if folder else None
    return file if file is not None and file.is_file() else None


def where_to_put(name: str) -> str:
    """What to do about weights that are missing."""
    folder = os.environ.get("LOOPE_WEIGHTS", "the folder that LOOPE_WEIGHTS names")
    return f"put them into {folder} as {_file_name(name)}, or let timm reach the model hub"


def _file_name(name: str) -> str:
    return f"{name}.safetensors"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
