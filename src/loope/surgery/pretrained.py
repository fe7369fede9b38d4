"""Load folders that transformers' `save_pretrained` or `Trainer` wrote."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.files import write_atomic
from loope.core.grid import Grid, as_grid
from loope.surgery import rehearsal, specs
from loope.surgery.adapters.transformers_build import BuiltByTransformers, with_weights
from loope.surgery.attach import attach, resize
from loope.surgery.find import sole_attachment
from loope.surgery.names import OURS, OWN, as_if_detached

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
SPEC = f"{OURS}_extra_state"
PEFT_CONFIG = "adapter_config.json"
MARK = "loope"  # the entry of the configuration that describes the model
ADVICE = "This model has encoders of loope attached, which from_pretrained would lose: read its folder with loope.load."


def mark_folder(folder: Path, cls: Any, about: dict[str, Any], size: Grid) -> None:
    """Describe an attached model in the configuration that transformers wrote, and make `from_pretrained` refuse it.

    transformers has no hook for that, but checks the types of a configuration: a text in place of a number makes it
    raise an error that shows the text.

    Args:
        folder: what `save_pretrained` wrote.
        cls: the model's class.
        about: what `describe_model` returned.
        size: image size in pixels.
    """
    from transformers import PreTrainedConfig

    path = folder / CONFIG
    if not path.is_file():
        return  # this process does not write
    config = json.loads(path.read_text())
    common, own = ([each.name for each in dataclasses.fields(of)] for of in (PreTrainedConfig, cls.config_class))
    # `Trainer` reads the entries that all configurations have.
    number = next(name for name in own if name not in common and isinstance(config.get(name), int | float))
    config |= {number: ADVICE, MARK: {"model": about, "size": list(size)}}
    write_atomic(path, json.dumps(config, indent=2))


def load_folder(folder: Path) -> nn.Module:
    """Build the folder's model, attach the encoders named in its weights, to it or to the same part, and load them.

    transformers renames weights in its files, so its `from_pretrained` reads them; encoders' weights keep their names.

    Raises:
        LoopeError: if the folder was not written by transformers, is damaged, or its model has nothing attached.
    """
    state = _weights(folder)
    found = _attached(state)
    require(bool(found), f"The model in {folder} has nothing attached; read it with transformers' from_pretrained.")
    require(
        len(found) == 1, f"The model in {folder} has {len(found)} attached parts, {', '.join(found)}; expected one."
    )
    part = found[0].removesuffix(SPEC)
    how: dict[str, Any] = dict(specs.from_bytes(state[found[0]]))
    about, size = _described(json.loads((folder / CONFIG).read_text()), how, part)

    def add(model: nn.Module) -> nn.Module:
        inner = _part(model, part)
        attach(inner, how["encoders"], keep_own=how["keep_own"], prefix=how["prefix"])
        sole_attachment(inner).host.note = None  # its weights come from the folder
        resize(inner, size)
        return inner

    # A configuration of a few hundred bytes can describe a model of gigabytes.
    rehearsal.require_modest({"config": about["config"], "attach": how}, len(state))
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    rehearsal.build_bounded(partial(BuiltByTransformers.build, about), add, size, shapes)
    model = with_weights(about, as_if_detached(state, part))
    attachment = sole_attachment(add(model))
    # The model's own encoding was read above, by the names of transformers' files, which may differ.
    ours, own = part + OURS, part + OWN
    kept = {f"own.{key}": value for key, value in attachment.own.state_dict().items()}
    read = {key.removeprefix(ours): state[key] for key in state if key.startswith(ours) and not key.startswith(own)}
    attachment.load_state_dict({**read, **kept})
    return model.eval()


def is_plain(folder: Path) -> bool:
    """Return whether transformers wrote a folder's model, with nothing attached.

    Raises:
        LoopeError: as `load_folder`, for other reasons than that.
    """
    return not _attached(_weights(folder))


def load_plain(folder: Path) -> nn.Module:
    """Build the model of a folder that `is_plain`, and load its weights.

    Raises:
        LoopeError: if the folder is damaged, or its model is none that `loope.attach` supports.
    """
    state = _weights(folder)
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    try:
        config = json.loads((folder / CONFIG).read_text())
        about = {"class": (config.get("architectures") or ["none"])[0], "config": config}
        rehearsal.require_modest({"config": config}, len(state))
        build = partial(BuiltByTransformers.build, about)
        rehearsal.build_bounded(build, lambda model: None, 1, shapes)  # the model's own grid is checked in any case
        return with_weights(about, state).eval()
    except LoopeError:
        raise
    except Exception as error:  # a damaged or foreign configuration can make transformers raise anything
        raise LoopeError(f"{folder} cannot be read: {type(error).__name__}: {str(error)[:500]}") from error


def _attached(state: Mapping[str, Tensor]) -> list[str]:
    """Return the keys that describe what is attached to a model or its parts."""
    return [key for key in state if key == SPEC or key.endswith(f".{SPEC}")]


def _described(config: dict[str, Any], how: dict[str, Any], part: str) -> tuple[dict[str, Any], Grid]:
    """Return how to build the folder's model, and the image size of its attached part."""
    if MARK in config:
        return config[MARK]["model"], as_grid(config[MARK]["size"], "size")
    about = {"class": (config.get("architectures") or ["none"])[0], "config": config}
    if part:  # saved by the model around it, which does not know of the encoders
        return about, as_grid(how["size"], "size")
    # Folders from before the mark: the configuration is the model's own, a ViT's or a DeiT's.
    size = as_grid(config["image_size"], "image_size")
    config["image_size"] = how.get("own_size", list(size))
    return about, size


def _part(model: nn.Module, prefix: str) -> nn.Module:
    """Return the part of a model whose weights have this prefix in the file, where outer names may be missing."""
    names = [name for name, _ in model.named_modules() if not prefix or f".{name}.".endswith(f".{prefix}")]
    require(bool(names), f"The folder has encoders attached to {prefix!r}, which a {type(model).__name__} has not.")
    return model.get_submodule(names[0])


def _weights(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    require(
        not (folder / PEFT_CONFIG).is_file(),
        f"{folder} holds an adapter of PEFT: build and attach the model as before, then call "
        f"peft.PeftModel.from_pretrained(model, {str(folder)!r}).",
    )
    require(
        (folder / CONFIG).is_file() and ((folder / WEIGHTS).is_file() or (folder / INDEX).is_file()),
        f"Expected a folder with {CONFIG} and {WEIGHTS}, as transformers and loope.HubModel write it, got {folder}.",
    )
    names = [WEIGHTS]
    if (folder / INDEX).is_file():
        names = sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise LoopeError(f"{folder / INDEX} names files outside its folder: {', '.join(outside)}.")
    return {key: tensor for name in names for key, tensor in load_file(folder / name).items()}
