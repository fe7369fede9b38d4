"""Find the position encodings in use in a checkpoint: attached encoders, the model's own table, or both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, GridLike, as_grid
from loope.core.weights import WeightsFile
from loope.encoders import PositionalEncoder
from loope.encoders.similarity import encoder_similarity
from loope.pesi_metric.functional import cosine_similarity
from loope.pesi_metric.position_table import find_table, require_timm_model, set_aside, table_names
from loope.surgery import specs
from loope.surgery.adapters.base import adapter_for, build_model
from loope.surgery.attach import encoders_for, resize
from loope.surgery.checkpoint import KEY, attach_by, read_recipe
from loope.surgery.rehearsal import EXTRA_STATE as SPEC
from loope.surgery.rehearsal import MOST_TENSORS, rehearse, require_modest


class EncodingInUse(NamedTuple):
    """A position encoding in use.

    Attributes:
        name: name of the encoder or of the table.
        source: the encoder with the checkpoint's weights, or an `(h, w, D)` table.
        grid: the grid to measure it on.
        dim: width D.
    """

    name: str
    source: PositionalEncoder | Tensor
    grid: Grid
    dim: int

    def similarity(self) -> Tensor:
        """Return the `(N, N)` float64 similarity of positions, for `loope.pesi_from_similarity`."""
        if isinstance(self.source, Tensor):
            return cosine_similarity(self.source)
        return encoder_similarity(self.source, self.grid)


class Acting(NamedTuple):
    """The encodings in use in a checkpoint, and the names of the model's own tables that are stored but unused."""

    positions: list[EncodingInUse]
    set_aside: list[str]


def acting(
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    grid: GridLike | None = None,
    name: str | None = None,
    model: str | None = None,
) -> Acting:
    """Find the position encodings in use in a checkpoint, with the checkpoint's weights.

    Untrusted files are safe: the model is built on the meta device, without memory, and must match the tensors of a
    `WeightsFile`. Only tensors of encoders and tables are read. The model's own rotary or relative encoding is ignored.

    Args:
        tensors: a state dict, or a `WeightsFile`.
        metadata: the file's metadata, where `loope.save` stores how to build the model.
        grid: (height, width) to measure on; by default the checkpoint's.
        name: a tensor to measure as the position table instead, even if it is unused.
        model: name of the timm model, for files that do not store it.

    Raises:
        LoopeError: if nothing is found, or the file lacks what is needed to build its encoders.
    """
    try:
        spec, recipe, prefix = _attached(tensors, metadata or {})
        if spec is None or name is not None:
            place = _own_grid(model) if model is not None and grid is None else grid
            found = [_table(tensors, place, name)]
        else:
            if recipe is not None and isinstance(tensors, WeightsFile):
                build, add = partial(build_model, recipe["model"]), partial(attach_by, recipe)
                rehearse(build, add, recipe["size"], tensors.shapes())
            found = _encoders(tensors, prefix, spec, recipe, grid, model)
            if spec["keep_own"]:
                found += [_table(tensors, grid, each) for each in table_names(tensors)]
    except LoopeError:
        raise
    except Exception as error:  # a foreign or damaged file can make the libraries raise anything
        raise LoopeError(f"What acts in the file cannot be found: {type(error).__name__}: {error}.") from None
    return Acting(found, set_aside(tensors))


def attached(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> specs.Spec | None:
    """Return how the encoders of a checkpoint were attached, or None, without building anything.

    Raises:
        LoopeError: if the description cannot be read.
    """
    try:
        return _attached(tensors, metadata)[0]
    except LoopeError:
        raise
    except Exception as error:  # a file can contain anything
        raise LoopeError(f"The file's recipe cannot be read: {type(error).__name__}: {error}.") from None


def _attached(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> tuple[specs.Spec | None, dict[str, Any] | None, str]:
    """Return the spec of the attachment, the recipe of `loope.save`, and the prefix of `loope.` in tensor names."""
    key = next((key for key in tensors if key == SPEC or key.endswith(f".{SPEC}")), None)
    prefix = "" if key is None else key.removesuffix(SPEC)
    most = len(tensors) if isinstance(tensors, WeightsFile) else MOST_TENSORS  # others may be a part of a file
    if KEY in metadata:
        recipe = read_recipe("The file", metadata, most)
        return recipe["attach"], recipe, prefix
    if key is None:
        return None, None, ""
    spec = specs.from_bytes(tensors[key])
    require_modest(json.loads(specs.to_json(spec)), most)
    return spec, None, prefix


def _encoders(
    tensors: Mapping[str, Tensor],
    prefix: str,
    spec: specs.Spec,
    recipe: dict[str, Any] | None,
    grid: GridLike | None,
    model: str | None,
) -> list[EncodingInUse]:
    require(
        recipe is not None or model is not None,
        f"The file has {specs.names(spec)} attached, but does not say to which model; name the timm model, or write "
        "the file with loope.save, which says it.",
    )
    built = _on_meta(recipe["model"] if recipe else _about(model))
    branches = adapter_for(built).branches()
    made = [encoders_for(branch, spec["encoders"]) for branch in branches]
    if recipe is not None:
        resize(built, recipe["size"])
        branches = adapter_for(built).branches()
    found = []
    for number, (branch, encoders) in enumerate(zip(branches, made, strict=True)):
        place = branch.grid if grid is None else as_grid(grid)
        for order, encoder in enumerate(encoders):
            start = f"{prefix}loope.encoders.{number}.{order}."
            encoder.resize(branch.grid if recipe else place)  # without a recipe, only the caller knows the size
            encoder.load_state_dict({k.removeprefix(start): tensors[k] for k in tensors if k.startswith(start)})
            name = encoder.name if len(branches) == 1 else f"{encoder.name}, {branch.name}"
            found.append(EncodingInUse(name, encoder.eval(), place, encoder.dim))
    return found


def _table(tensors: Mapping[str, Tensor], grid: GridLike | None, name: str | None) -> EncodingInUse:
    key, table = find_table(tensors, grid, name)
    return EncodingInUse(key, table, Grid(*table.shape[:2]), table.shape[-1])


def _own_grid(model: str) -> Grid | None:
    """Return the patch grid of a timm model, or None if it has none."""
    size = getattr(getattr(_on_meta(_about(model)), "patch_embed", None), "grid_size", None)
    return None if size is None else Grid(*size)


def _about(model: str | None) -> dict[str, Any]:
    require_timm_model(str(model))
    return {"library": "timm", "name": model, "args": {}}


def _on_meta(about: dict[str, Any]) -> nn.Module:
    with torch.device("meta"):
        return build_model(about)
