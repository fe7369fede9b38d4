"""Create timm models with local or downloaded weights, and read their preprocessing."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import timm
from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.hub import hub_or_cache
from loope.lab.data.transforms import Preparation
from loope.lab.experiments.spec import Model
from loope.surgery.checkpoint import load
from loope.surgery.report import report


def create_timm(spec: Model, **more: Any) -> nn.Module:
    """Create a timm model, with pretrained weights if the spec asks for them.

    A local weights file of that name takes precedence over a download.
    """
    options: dict[str, Any] = {**spec.options, **more}
    if spec.weights == "pretrained":
        file = local_weights(spec.name)
        if file is not None:
            # Some models would expect their published weights in a custom format.
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


def create_swapped(spec: Model, encoder: str, num_classes: int) -> nn.Module:
    """Create a model that `loope swap` handed over to an encoder, with a new classifier.

    Raises:
        LoopeError: if its file is missing, or holds another model or encoder.
    """
    file = swapped_weights(spec.name, encoder)
    model = load(file)
    found = report(model)
    require(
        found.encoders == [encoder] and not found.keep_own,
        f"{file} must hold a {spec.name} that was handed over to {encoder!r}.",
    )
    model.reset_classifier(num_classes)  # type: ignore[operator]
    return model


def swapped_weights(name: str, encoder: str) -> Path:
    """Return the file that `loope swap` wrote.

    Raises:
        LoopeError: if it is missing, with the command that writes it.
    """
    file = local_weights(f"{name}-{encoder}")
    if file is None:
        folder = os.environ.get("LOOPE_WEIGHTS", "WEIGHTS")
        raise LoopeError(
            f"A run needs {name} handed over to {encoder!r}: `loope swap {name} {encoder} --images DIR --to "
            f"{folder}/{_file_name(f'{name}-{encoder}')}`, with LOOPE_WEIGHTS={folder}."
        )
    return file


def preparation(model: str, size: int | None = None) -> Preparation:
    """Return the preprocessing that a timm model expects, in its default size or another."""
    known = timm.get_pretrained_cfg(model)
    require(known is not None, f"timm knows no configuration of {model!r}.")
    config: dict[str, Any] = dict(known.to_dict())  # type: ignore[union-attr]
    if size is not None:
        config["input_size"] = (3, size, size)
    return Preparation.from_timm(config)


def local_weights(name: str) -> Path | None:
    """Return the weights file of a model below `LOOPE_WEIGHTS`, or None."""
    folder = os.environ.get("LOOPE_WEIGHTS")
    file = Path(folder) / _file_name(name) if folder else None
    return file if file is not None and file.is_file() else None


def where_to_put(name: str) -> str:
    """Explain where to put missing weights."""
    folder = os.environ.get("LOOPE_WEIGHTS", "the folder that LOOPE_WEIGHTS names")
    return f"put them into {folder} as {_file_name(name)}, or let timm reach the model hub"


def _file_name(name: str) -> str:
    return f"{name}.safetensors"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
