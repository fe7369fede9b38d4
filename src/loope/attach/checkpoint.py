"""One safetensors file that holds an attached model and says how to build it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from loope.attach import libraries, specs
from loope.attach.api import attach, resize
from loope.attach.attachment import required_attachment
from loope.core.errors import LoopeError, require
from loope.core.files import write_atomic
from loope.core.grid import Grid

KEY = "loope"
FORMAT = 1
OWN = "loope.own."
TRAITS = (
    *("num_heads", "head_dim", "num_prefix_tokens", "no_embed_class", "dynamic_img_size", "global_pool"),
    *("temperature", "ref_feat_shape", "grid_indexing", "grid_offset", "rotate_half"),  # of a rotary encoding
)


def save(model: nn.Module, path: str | Path, *, model_args: dict[str, Any] | None = None) -> Path:
    """Write an attached model to one safetensors file, atomically.

    Args:
        model: a model of timm, transformers or `loope.models`, with something attached.
        path: the file.
        model_args: arguments that a timm model, or the timm backbone of ours, was created with beyond its name, number
            of classes and image size, which are found by themselves.

    Raises:
        LoopeError: if nothing is attached, or the model could not be built again from what the file would say.
    """
    try:
        from safetensors.torch import save as to_safetensors
    except ImportError:
        raise LoopeError("Writing checkpoints needs safetensors: pip install 'loope[models]'.") from None
    attachment = required_attachment(model)
    require(not attachment.baked, "A frozen model is for deployment; save the model before loope.freeze.")
    branch, own = attachment.branches[0], attachment.own_grids[0]
    if attachment.spec["keep_own"]:  # then the model's own table has the present size
        own = branch.grid
    size = Grid(own.height * branch.patch_size, own.width * branch.patch_size)
    recipe: dict[str, Any] = {
        "format": FORMAT,
        "model": libraries.describe(model, size, branch.channels, model_args or {}),
        "attach": attachment.spec,
        "size": list(branch.pixels),
        "dtype": str(next(branch.patch_embed.parameters()).dtype).removeprefix("torch."),
    }
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    _check_rebuilds(recipe["model"], model)
    return write_atomic(Path(path), to_safetensors(state, metadata={KEY: specs.to_json(recipe)}))


def load(path: str | Path) -> nn.Module:
    """Build the model again and load its weights; it is in eval mode.

    Raises:
        LoopeError: if the file is missing, damaged, or was not written by `save`.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise LoopeError("Reading checkpoints needs safetensors: pip install 'loope[models]'.") from None
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
    try:
        recipe = json.loads(metadata[KEY])
        require(recipe["format"] == FORMAT, f"{path} has format {recipe['format']}; this version reads {FORMAT}.")
        recipe["attach"] = specs.from_json(json.dumps(recipe["attach"]))
        model = _build(recipe)
        model.load_state_dict(state)
    except LoopeError:
        raise
    except Exception as error:  # whatever a damaged or foreign recipe sets off in the libraries that read it
        raise LoopeError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    return model.eval()


def _check_rebuilds(about: dict[str, Any], model: nn.Module) -> None:
    """The model as its name and arguments would build it must have the parameters and the traits that this one has."""
    with torch.device("meta"):
        rebuilt = libraries.build(about)
    different = []
    for look in (_shapes, _traits):
        ours, theirs = _as_if_detached(look(model)), look(rebuilt)
        different += sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    require(
        not different,
        f"The model could not be built again from {about}: {', '.join(different[:3])} would differ; pass what it was "
        "created with as model_args={...}.",
    )


def _shapes(model: nn.Module) -> dict[str, str]:
    return {name: str(tuple(tensor.shape)) for name, tensor in model.state_dict().items()}


def _traits(model: nn.Module) -> dict[str, str]:
    """What shapes do not show."""
    return {
        f"{name}.{trait}": str(tuple(value) if isinstance(value, list) else value)
        for name, module in model.named_modules()
        for trait in TRAITS
        if isinstance(value := getattr(module, trait, None), int | float | str | list | tuple)
    }


def _as_if_detached(named: dict[str, str]) -> dict[str, str]:
    """Names as they are with nothing attached: what was set aside at its old place, and nothing of ours."""
    back = {name.removeprefix(OWN).replace("/", ".") if name.startswith(OWN) else name: named[name] for name in named}
    return {name: value for name, value in back.items() if not name.startswith("loope.")}


def _build(recipe: dict[str, Any]) -> nn.Module:
    model, how = libraries.build(recipe["model"]), recipe["attach"]
    attach(model, how["encoders"], keep_own=how["keep_own"], prefix=how["prefix"])
    resize(model, recipe["size"])
    return model.to(getattr(torch, recipe["dtype"]))
