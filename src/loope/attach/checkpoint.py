"""One safetensors file that holds an attached model and says how to build it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from loope.attach import specs
from loope.attach.api import attach, resize
from loope.attach.attachment import required_attachment
from loope.core.errors import LoopeError, require
from loope.core.files import write_atomic
from loope.core.grid import Grid

KEY = "loope"
FORMAT = 1
OWN = "loope.own."


def save(model: nn.Module, path: str | Path, *, model_args: dict[str, Any] | None = None) -> Path:
    """Write an attached model to one safetensors file, atomically.

    Args:
        model: a timm or transformers model with something attached.
        path: the file.
        model_args: arguments that a timm model was created with beyond its name, number of classes and image size,
            which are found by themselves.

    Raises:
        LoopeError: if nothing is attached, or the model could not be built again from what the file would say.
    """
    from safetensors.torch import save as to_safetensors

    attachment = required_attachment(model)
    require(not attachment.baked, "A frozen model is for deployment; save the model before loope.freeze.")
    own = Grid(*(side * attachment.branches[0].patch_size for side in attachment.own_grids[0]))
    recipe: dict[str, Any] = {
        "format": FORMAT,
        "model": _describe(model, own, model_args or {}),
        "attach": specs.from_bytes(attachment.spec),
        "size": list(attachment.branches[0].pixels),
    }
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    _check_rebuilds(recipe["model"], state)
    return write_atomic(Path(path), to_safetensors(state, metadata={KEY: specs.to_json(recipe)}))


def load(path: str | Path) -> nn.Module:
    """Build the model again and load its weights; it is in eval mode.

    Raises:
        LoopeError: if the file is missing, damaged, or was not written by `save`.
    """
    from safetensors import SafetensorError, safe_open

    require(Path(path).is_file(), f"There is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
    except SafetensorError as error:
        raise LoopeError(f"{path} is no safetensors file, or is damaged: {error}.") from None
    require(
        KEY in metadata,
        f"{path} was not written by loope.save and does not say how to build its model; build and attach the model, "
        "then load the file with safetensors.torch.load_model.",
    )
    recipe = json.loads(metadata[KEY])
    require(recipe["format"] == FORMAT, f"{path} has format {recipe['format']}; this version reads {FORMAT}.")
    recipe["attach"] = specs.from_json(json.dumps(recipe["attach"]))
    model = _build(recipe)
    model.load_state_dict(state)
    return model.eval()


def _describe(model: Any, own: Grid, model_args: dict[str, Any]) -> dict[str, Any]:
    home = type(model).__module__.partition(".")[0]
    if home == "transformers":
        return {
            "library": home,
            "class": type(model).__name__,
            "config": {**model.config.to_dict(), "image_size": list(own)},
        }
    name = (getattr(model, "pretrained_cfg", None) or {}).get("architecture")
    require(
        home == "timm" and bool(name),
        f"Can only save models made by timm.create_model or transformers, got {type(model).__name__}; for others use "
        "safetensors.torch.save_model.",
    )
    channels = required_attachment(model).branches[0].channels
    found = {"img_size": list(own), "num_classes": model.num_classes, "in_chans": channels}
    return {"library": "timm", "name": name, "args": {**found, **model_args}}


def _check_rebuilds(about: dict[str, Any], state: dict[str, torch.Tensor]) -> None:
    """The model as its own name and arguments would build it must have the parameters that this one has."""
    with torch.device("meta"):
        rebuilt = {name: tensor.shape for name, tensor in _build_model(about).state_dict().items()}
    ours = {name: tensor.shape for name, tensor in state.items() if not name.startswith("loope.")}
    for name, tensor in state.items():
        if name.startswith(OWN):
            ours[name.removeprefix(OWN).replace("/", ".")] = tensor.shape
    different = sorted(name for name in ours.keys() | rebuilt.keys() if ours.get(name) != rebuilt.get(name))
    require(
        not different,
        f"The model could not be built again from {about}: {', '.join(different[:3])} would differ; pass what it was "
        "created with as model_args={...}.",
    )


def _build(recipe: dict[str, Any]) -> nn.Module:
    model, how = _build_model(recipe["model"]), recipe["attach"]
    attach(model, how["encoders"], keep_own=how["keep_own"], prefix=how["prefix"])
    resize(model, recipe["size"])
    return model


def _build_model(about: dict[str, Any]) -> nn.Module:
    return _build_timm(about) if about["library"] == "timm" else _build_transformers(about)


def _build_timm(about: dict[str, Any]) -> nn.Module:
    import timm

    args = {key: tuple(value) if isinstance(value, list) else value for key, value in about["args"].items()}
    create: Any = timm.create_model
    model: nn.Module = create(about["name"], pretrained=False, **args)
    return model


def _build_transformers(about: dict[str, Any]) -> nn.Module:
    import transformers

    cls = getattr(transformers, about["class"], None)
    require(
        isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel),
        f"transformers has no model class {about['class']!r}.",
    )
    config = cls.config_class.from_dict(about["config"])  # type: ignore[union-attr]
    model: nn.Module = cls(config)  # type: ignore[misc]
    return model
