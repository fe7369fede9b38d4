"""Open a model by its timm name, from a file of `loope.save`, or from a folder of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.files import is_path
from loope.core.grid import Grid
from loope.lab.data.transforms import Preparation
from loope.lab.experiments.spec import Model
from loope.lab.experiments.timm_models import create_timm, preparation
from loope.pesi_metric.position_table import require_timm_model
from loope.surgery.adapters.base import adapter_for
from loope.surgery.checkpoint import load
from loope.surgery.find import unwrapped
from loope.surgery.pretrained import CONFIG, is_plain, load_plain

PREPROCESSOR = "preprocessor_config.json"


def open_model(name: str, *, weights: str = "pretrained") -> nn.Module:
    """Return a model.

    Args:
        name: a timm model, a file of `loope.save`, or a folder of `HubModel` or transformers' `save_pretrained`.
        weights: of a timm model: "pretrained" or "scratch".

    Raises:
        LoopeError: if it is none of these, or cannot be read.
    """
    path = Path(name)
    if not is_path(name):
        require_timm_model(name)
        return create_timm(Model(name=name, weights=weights))
    require(path.exists(), f"There is no file or folder {path}; give one, or the name of a timm model.")
    if (path / CONFIG).is_file() and is_plain(path):
        return load_plain(path)
    return load(path)


def preparation_of(name: str, model: nn.Module) -> Preparation:
    """Return the preprocessing that a model of `open_model` expects.

    A folder of transformers may come without its preprocessor: values in -1..1 then, as most vision transformers have.

    Raises:
        LoopeError: if the preprocessor of a folder cannot be read.
    """
    if not is_path(name):
        return preparation(name)
    size = adapter_for(unwrapped(model)).branches()[0].pixels
    for part in model.modules():
        config = getattr(part, "pretrained_cfg", None)
        if isinstance(config, dict) and config:  # of timm
            return Preparation.from_timm({**config, "input_size": (3, *size)})
    file = Path(name) / PREPROCESSOR
    return _of_transformers(file, size) if file.is_file() else Preparation(size=size)


def _of_transformers(file: Path, size: Grid) -> Preparation:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
        shared: dict[str, Any] = {
            key: tuple(map(float, found[f"image_{key}"])) for key in ("mean", "std") if f"image_{key}" in found
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise LoopeError(f"{file} cannot be read: {error}.") from error
    return Preparation(size=size, **shared)
