"""Load folders that transformers' `save_pretrained` or `Trainer` wrote from an attached model."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import as_grid
from loope.surgery import rehearsal, specs
from loope.surgery.adapters.transformers import HuggingFaceAdapter, with_weights
from loope.surgery.attach import attach, resize
from loope.surgery.find import sole_attachment
from loope.surgery.state import OURS, as_if_detached

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
SPEC = f"{OURS}_extra_state"
PEFT_CONFIG = "adapter_config.json"


def load_folder(folder: Path) -> nn.Module:
    """Build the folder's model, attach the encoders named in its weights, and load them.

    transformers renames weights in its files, so its `from_pretrained` reads them; encoders' weights keep their names.

    Raises:
        LoopeError: if the folder was not written by transformers, is damaged, or its model has nothing attached.
    """
    require(
        not (folder / PEFT_CONFIG).is_file(),
        f"{folder} holds an adapter of PEFT: build and attach the model as before, then call "
        f"peft.PeftModel.from_pretrained(model, {str(folder)!r}).",
    )
    require(
        (folder / CONFIG).is_file() and ((folder / WEIGHTS).is_file() or (folder / INDEX).is_file()),
        f"Expected a folder with {CONFIG} and {WEIGHTS}, as transformers and loope.HubModel write it, got {folder}.",
    )
    state = _weights(folder)
    require(
        SPEC in state,
        f"The model in {folder} has nothing attached; read it with transformers' from_pretrained.",
    )
    config = json.loads((folder / CONFIG).read_text())
    how: dict[str, Any] = dict(specs.from_bytes(state[SPEC]))
    size = as_grid(config["image_size"], "image_size")
    config["image_size"] = how.get("own_size", list(size))  # missing in older files
    architecture = (config.get("architectures") or ["none"])[0]

    def add(model: nn.Module) -> None:
        attach(model, how["encoders"], keep_own=how["keep_own"], prefix=how["prefix"])
        sole_attachment(model).host.note = None  # its weights come from the folder
        resize(model, size)

    # A configuration of a few hundred bytes can describe a model of gigabytes.
    rehearsal.require_modest({"config": config, "attach": how}, len(state))
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    about = {"class": architecture, "config": config}
    rehearsal.build_bounded(partial(HuggingFaceAdapter.build, about), add, size, shapes)
    model = with_weights(architecture, config, as_if_detached(state))
    add(model)
    model.loope.load_state_dict({key.removeprefix(OURS): state[key] for key in state if key.startswith(OURS)})  # type: ignore[union-attr]
    return model.eval()


def _weights(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    names = [WEIGHTS]
    if (folder / INDEX).is_file():
        names = sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise LoopeError(f"{folder / INDEX} names files outside its folder: {', '.join(outside)}.")
    return {key: tensor for name in names for key, tensor in load_file(folder / name).items()}
