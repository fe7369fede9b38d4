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
TRAITS = (
    *("num_heads", "head_dim", "num_prefix_tokens", "no_embed_class", "dynamic_img_size", "global_pool"),
    *("temperature", "ref_feat_shape", "grid_indexing", "grid_offset", "rotate_half"),  # of a rotary encoding
)


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
    branch, own = attachment.branches[0], attachment.own_grids[0]
    if attachment.spec["keep_own"]:  # then the model's own table has the present size
        own = branch.grid
    size = Grid(own.height * branch.patch_size, own.width * branch.patch_size)
    recipe: dict[str, Any] = {
        "format": FORMAT,
        "model": _describe(model, size, model_args or {}),
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


def _describe(model: Any, own: Grid, model_args: dict[str, Any]) -> dict[str, Any]:
    home = type(model).__module__.partition(".")[0]
    if home == "transformers":
        return {
            "library": home,
            "class": type(model).__name__,
            "config": {**model.config.to_dict(), "image_size": list(own)},
        }
    about = getattr(model, "pretrained_cfg", None) or {}
    name = ".".join(part for part in (about.get("architecture"), about.get("tag")) if part)
    require(
        home == "timm" and bool(name),
        f"Can only save models made by timm.create_model or transformers, got {type(model).__name__}; for others use "
        "safetensors.torch.save_model.",
    )
    channels = required_attachment(model).branches[0].channels
    found = {"img_size": list(own), "num_classes": model.num_classes, "in_chans": channels}
    return {"library": "timm", "name": name, "args": {**found, **model_args}}


def _check_rebuilds(about: dict[str, Any], model: nn.Module) -> None:
    """The model as its name and arguments would build it must have the parameters and the traits that this one has."""
    with torch.device("meta"):
        rebuilt = _build_model(about)
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
    model, how = _build_model(recipe["model"]), recipe["attach"]
    attach(model, how["encoders"], keep_own=how["keep_own"], prefix=how["prefix"])
    resize(model, recipe["size"])
    return model.to(getattr(torch, recipe["dtype"]))


def _build_model(about: dict[str, Any]) -> nn.Module:
    return _build_timm(about) if about["library"] == "timm" else _build_transformers(about)


def _build_timm(about: dict[str, Any]) -> nn.Module:
    import timm

    # A name with a scheme, or an argument that names a file, would make timm read what a checkpoint has no say in.
    require(timm.is_model(about["name"]), f"timm has no model {about['name']!r}.")
    args = {key: tuple(value) if isinstance(value, list) else value for key, value in about["args"].items()}
    outside = [key for key in args if key.startswith(("pretrained", "checkpoint", "cache"))]
    require(not outside, f"A model cannot be built with {', '.join(outside)} from a checkpoint.")
    create: Any = timm.create_model
    model: nn.Module = create(about["name"], pretrained=False, **args)
    return model


def _build_transformers(about: dict[str, Any]) -> nn.Module:
    import transformers
    from transformers import DeiTPreTrainedModel, ViTPreTrainedModel

    cls = getattr(transformers, about["class"], None)
    known = isinstance(cls, type) and issubclass(cls, (ViTPreTrainedModel, DeiTPreTrainedModel))
    require(known, f"transformers has no ViT or DeiT model class {about['class']!r}.")
    config = {key: value for key, value in about["config"].items() if "attn_implementation" not in key}
    model: nn.Module = cls(cls.config_class.from_dict(config))  # type: ignore[union-attr,misc]
    return model
