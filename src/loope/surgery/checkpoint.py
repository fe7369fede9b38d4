"""Save and load an attached model as one safetensors file that also describes how to build it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, MissingPackageError, require
from loope.core.files import write_atomic
from loope.surgery import pretrained, rehearsal, specs
from loope.surgery.adapters.base import build_model, describe_model
from loope.surgery.attach import attach, resize
from loope.surgery.control import set_strength
from loope.surgery.find import require_merged, sole_attachment, unwrapped
from loope.surgery.names import as_if_detached

KEY = "loope"
FORMAT = 1
MOST_RECIPE = 8 * 2**20  # characters; the names of 20,000 classes take two million
DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}  # with safetensors' names
TRAITS = (
    *("num_heads", "head_dim", "num_prefix_tokens", "no_embed_class", "dynamic_img_size", "global_pool"),
    *("temperature", "ref_feat_shape", "grid_indexing", "grid_offset", "rotate_half"),  # of a rotary encoding
)


def save(model: nn.Module, path: str | Path, *, model_args: dict[str, Any] | None = None) -> Path:
    """Write an attached model to one safetensors file, atomically.

    Args:
        model: a model with encoders attached, of timm, transformers, `loope.segmentation`, or any adapter with
            `describe` and `build`; may be wrapped in DDP, DataParallel or torch.compile. Merge PEFT's adapters first.
        path: the file to write.
        model_args: arguments that a timm model, or timm backbone, was created with; its name, number of classes and
            image size are detected; dropout rates are not: pass them if the loaded model will be trained. Passed to
            `Adapter.describe` as `args`.

    Raises:
        LoopeError: if nothing is attached, or the file could not rebuild the model.
    """
    try:
        from safetensors.torch import save as to_safetensors
    except ImportError:
        raise MissingPackageError("Writing checkpoints needs safetensors: pip install 'loope[models]'.") from None
    model = unwrapped(model)
    require_merged(model)
    attachment = sole_attachment(model)
    require(not attachment.baked, "A baked model cannot be saved; save the model before loope.bake.")
    branch = attachment.branches[0]
    recipe: dict[str, Any] = {
        "format": FORMAT,
        "model": describe_model(attachment.host.adapter, attachment.own_size, model_args or {}),
        "attach": attachment.saved_spec,
        "size": list(branch.pixels),
        "dtype": str(next(branch.patch_embed.parameters()).dtype).removeprefix("torch."),
    }
    state = _separate(model.state_dict())
    _check_rebuilds(recipe["model"], model)
    return write_atomic(Path(path), to_safetensors(state, metadata={KEY: specs.to_json(recipe)}))


def _separate(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous tensors that share no memory, as safetensors files need it; tied weights are copied."""
    taken: set[int] = set()
    made = {}
    for name, tensor in state.items():
        start = tensor.untyped_storage().data_ptr()
        made[name] = tensor.clone(memory_format=torch.contiguous_format) if start in taken else tensor.contiguous()
        taken.add(start)
    return made


def load(path: str | Path) -> nn.Module:
    """Load a model that `save` wrote, in eval mode.

    The file need not be trusted: the model is first built without memory and compared with the file's tensors, and only
    registered adapters build it.

    Args:
        path: a file that `save` wrote, or a folder that `HubModel`, transformers' `save_pretrained` or its `Trainer`
            wrote from an attached model.

    Raises:
        LoopeError: if the file is missing or damaged, does not describe its model, holds another model than it
            describes, or has weights that are not finite.
    """
    path = Path(path)
    if not path.is_dir():
        return _load_file(path)
    if _is_ours(path / pretrained.WEIGHTS):
        return _load_file(path / pretrained.WEIGHTS)
    try:
        return pretrained.load_folder(path)
    except LoopeError:
        raise
    except Exception as error:  # a damaged or foreign configuration can make transformers raise anything
        raise LoopeError(f"{path} cannot be read: {type(error).__name__}: {str(error)[:500]}") from error


def _is_ours(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return KEY in (file.metadata() or {})
    except (SafetensorError, FileNotFoundError):
        return False


def _load_file(path: Path) -> nn.Module:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingPackageError("Reading checkpoints needs safetensors: pip install 'loope[models]'.") from None
    require(path.is_file(), f"There is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            recipe = read_recipe(path, file.metadata() or {}, len(file.keys()))
            _rehearse(path, recipe, file)
            model = build_model(recipe["model"])
            attach_by(recipe, model)
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
        for name, tensor in state.items():
            require(
                not tensor.is_floating_point() or bool(tensor.isfinite().all()),
                f"{path} has weights that are not finite, in {name}; save the model from before its training diverged.",
            )
        model.load_state_dict(state)
    except LoopeError:
        raise
    except SafetensorError as error:
        raise LoopeError(f"{path} is no safetensors file, or is damaged: {error}.") from None
    except Exception as error:  # a damaged or foreign recipe can make the libraries raise anything
        raise LoopeError(f"{path} cannot be read: {type(error).__name__}: {str(error)[:500]}") from error
    return model.eval()


def read_recipe(path: str | Path, metadata: Mapping[str, str], tensors: int) -> dict[str, Any]:
    """Read and check the description of a file's model.

    Raises:
        LoopeError: if it is missing, of another format, or larger than any model needs.
    """
    require(
        KEY in metadata,
        f"{path} was not written by loope.save and does not say how to build its model; {_advice(Path(path).parent)}.",
    )
    text = metadata[KEY]
    require(len(text) <= MOST_RECIPE, f"{path} describes its model in {len(text):,} letters, more than any needs.")
    recipe: dict[str, Any] = json.loads(text)
    require(recipe["format"] == FORMAT, f"{path} has format {recipe['format']}; this version reads {FORMAT}.")
    rehearsal.require_modest(recipe, tensors)
    recipe["attach"] = specs.from_json(json.dumps(recipe["attach"]))
    count = len(recipe["attach"]["encoders"])
    require(
        count <= rehearsal.MOST_ENCODERS,
        f"{path} describes {count:,} encoders; up to {rehearsal.MOST_ENCODERS} are attached from a file.",
    )
    return recipe


def _rehearse(path: str | Path, recipe: dict[str, Any], file: Any) -> None:
    """Check, without allocating memory, that the file holds the tensors of the model that it describes."""
    tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
    shapes = {name: tuple(tensor.get_shape()) for name, tensor in tensors.items()}
    dtypes = {tensor.get_dtype() for tensor in tensors.values()}
    require(
        DTYPES.get(recipe["dtype"]) in dtypes,
        f"{path} describes a model in {recipe['dtype']!r}, but has tensors in {', '.join(sorted(dtypes)) or 'none'}.",
    )
    spec = math.prod(shapes.get(rehearsal.EXTRA_STATE, ()))
    require(spec <= MOST_RECIPE, f"{path} describes its encoders in {spec:,} bytes, more than any model needs.")
    rehearsal.rehearse(partial(build_model, recipe["model"]), partial(attach_by, recipe), recipe["size"], shapes)


def attach_by(recipe: dict[str, Any], model: nn.Module) -> None:
    """Attach a recipe's encoders to a new model, and set its image size and dtype."""
    how = recipe["attach"]
    attach(model, how["encoders"], keep_own=how["keep_own"], prefix=how["prefix"])
    if "strengths" in how:
        strength, own = specs.strengths(how)
        set_strength(model, strength, own=own if how["keep_own"] else None)
    sole_attachment(model).host.note = None  # its weights come from the file
    resize(model, recipe["size"])
    model.to(getattr(torch, recipe["dtype"]))


def _advice(folder: Path) -> str:
    """Return how to read a file that `save` did not write."""
    if (folder / pretrained.PEFT_CONFIG).is_file():
        return f"build and attach the model, then call peft.PeftModel.from_pretrained(model, {str(folder)!r})"
    if (folder / pretrained.CONFIG).is_file():
        return f"its folder does: loope.load({str(folder)!r})"
    return "build and attach the model, then load the file with safetensors.torch.load_model"


def _check_rebuilds(about: dict[str, Any], model: nn.Module) -> None:
    """Check that the description builds a model with the same class, shapes and traits."""
    with torch.device("meta"):
        rebuilt = build_model(about)
    different = [] if type(rebuilt) is type(model) else [f"its class {type(model).__name__}"]
    for look in (_shapes, _traits):
        ours, theirs = as_if_detached(look(model)), look(rebuilt)
        different += sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    require(
        not different,
        f"The model could not be built again from {about}: {', '.join(different[:3])} would differ; pass what it was "
        "created with as model_args={...}.",
    )


def _shapes(model: nn.Module) -> dict[str, str]:
    return {name: str(tuple(tensor.shape)) for name, tensor in model.state_dict().items()}


def _traits(model: nn.Module) -> dict[str, str]:
    """Return properties of modules that their shapes do not show; dropout rates change no output, and may differ."""
    activations = {
        f"{name} ({type(module).__name__})": ""
        for name, module in model.named_modules()
        if "activation" in type(module).__module__ and not list(module.children())
    }
    return activations | {
        f"{name}.{trait}": str(tuple(value) if isinstance(value, list) else value)
        for name, module in model.named_modules()
        if not type(module).__name__.startswith("PatchDropout")  # of timm; active in training only, and has traits
        for trait in TRAITS
        if isinstance(value := getattr(module, trait, None), int | float | str | list | tuple)
    }
