"""Find the position table of a trained model by name and shape, without its prefix tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from torch import Tensor

from loope.core.errors import LoopeError, nearest_first, require, shown
from loope.core.grid import Grid, GridLike, as_grid
from loope.core.hub import hub_or_cache, missing_weights
from loope.core.packages import require_packages
from loope.core.tensors import as_dense
from loope.core.weights import WeightsFile

Weights: TypeAlias = str | Path | Mapping[str, Tensor]

# pos_embed (timm), position_embeddings (transformers), positional_embedding (CLIP), pos_embedding (torchvision), ...
NAMED = re.compile(r"(^|\.)(absolute_)?pos(ition(al)?)?_embed(ding)?s?([._]\d+)?(\.weight)?$")
SET_ASIDE = re.compile(r"(^|\.)loope\.own\.")  # stored by loope.attach, but unused
MOST_PREFIX = 8  # class, distillation and register tokens; a text model's table has more extra rows


def position_table(weights: Weights, grid: GridLike | None = None, name: str | None = None) -> Tensor:
    """Return the position table of a model's patches, for `loope.pesi`.

    Args:
        weights: a `.safetensors` file, from which only the table is read, or a state dict.
        grid: (height, width) of the patches; by default the square that leaves the fewest prefix tokens.
        name: the tensor's name, needed if there are several tables.

    Returns:
        `(h, w, D)` in the table's dtype, without the prefix tokens, which come first in a table.

    Raises:
        LoopeError: if there is no table, none that fits the grid, or more than one.

    Examples:
        >>> import torch
        >>> position_table({"pos_embed": torch.rand(1, 197, 8), "head.weight": torch.rand(10, 8)}).shape
        torch.Size([14, 14, 8])
        >>> position_table({"pos_embed": torch.rand(1, 197, 8)}, grid=(7, 28)).shape
        torch.Size([7, 28, 8])
    """
    return find_table(weights, grid, name)[1]


def find_table(weights: Weights, grid: GridLike | None = None, name: str | None = None) -> tuple[str, Tensor]:
    """Return the tensor's name and its `position_table`."""
    tensors = weights if isinstance(weights, Mapping) else WeightsFile(weights)
    tables = {key: as_dense(tensors[key], key, "(1, N, D)").detach() for key in _choose(tensors, name)}
    wanted = None if grid is None else as_grid(grid)
    there = ", ".join(f"{key} {tuple(table.shape)}" for key, table in tables.items())
    fitting = [(key, patches) for key, table in tables.items() if (patches := _patches(table, wanted)) is not None]
    require(
        bool(fitting),
        f"No table of positions fits {wanted or 'a square grid'} with up to {MOST_PREFIX} prefix tokens; there is "
        f"{there}. Pass the grid of the patches.",
    )
    require(len(fitting) == 1, f"There is more than one table of positions: {there}; pass the name of one.")
    return fitting[0]


def model_table(model: str, grid: GridLike | None = None, name: str | None = None) -> Tensor:
    """Return the position table of a pretrained timm model.

    Args:
        model: the model's name.
        grid: (height, width) of the patches; by default the model's.
        name: the tensor's name, needed if there are several tables.

    Returns:
        `(h, w, D)`.

    Raises:
        LoopeError: if timm has no such model or cannot load it, and as `position_table` does.
    """
    timm = require_timm_model(model)
    missing = missing_weights(model)
    require(missing is None, f"The weights of {model!r} cannot be had: {missing}; give a file of them (--checkpoint).")
    try:
        with hub_or_cache():
            made = timm.create_model(model, pretrained=True)
    except Exception as error:  # the hub and the network can raise anything
        raise LoopeError(f"timm cannot load {model!r}: {error}; give a file of its weights.") from None
    own = getattr(getattr(made, "patch_embed", None), "grid_size", None)
    return position_table(made.state_dict(), grid or own, name)


def require_timm_model(name: str) -> ModuleType:
    """Return the timm module after checking that it has the model.

    Raises:
        LoopeError: if it has not; the message names the nearest models.
        MissingPackageError: if timm is not installed.
    """
    require_packages("A model by name", "models", "timm")
    import timm

    if not timm.is_model(name):
        near = ", ".join(nearest_first(name, timm.list_models())[:5])
        raise LoopeError(f"timm has no model {name!r}; nearest are {near}.")
    return timm


def table_names(tensors: Iterable[str]) -> list[str]:
    """Return the names of the tables in use."""
    return [key for key in tensors if NAMED.search(key) and not SET_ASIDE.search(key)]


def set_aside(tensors: Iterable[str]) -> list[str]:
    """Return the names of the tables that `loope.attach` disabled; `position_table` reads them by name only."""
    # Their names have slashes instead of dots.
    return [key for key in tensors if SET_ASIDE.search(key) and NAMED.search(key.replace("/", "."))]


def _choose(tensors: Iterable[str], name: str | None) -> list[str]:
    """Return the given name, or all names of position tables."""
    keys = list(tensors)
    strange = [key for key in keys if not isinstance(key, str)]
    require(not strange, f"`weights` must map names to tensors, got {shown(strange[0]) if strange else ''} for a name.")
    if name is not None:
        require(isinstance(name, str), f"`name` must be a tensor's name, got {shown(name)}.")
        require(name in keys, f"There is no tensor {name!r}; nearest are {', '.join(nearest_first(name, keys)[:5])}.")
        return [name]
    chosen, unused = table_names(keys), set_aside(keys)
    require(
        bool(chosen) or not unused,
        "Another encoding is attached to the model, and its own table of positions is set aside; pass the table's "
        f"name to read it: {', '.join(unused)}.",
    )
    require(
        bool(chosen), "There is no table of positions, such as 'pos_embed'; pass the name of the tensor if it has one."
    )
    return chosen


def _patches(table: Tensor, wanted: Grid | None) -> Tensor | None:
    """Extract `(h, w, D)` from `(tokens, D)`, `(1, tokens, D)` or `(1, h, w, D)`; None if it does not fit."""
    if table.dim() > 2:
        if table.shape[0] != 1:
            return None
        table = table[0]
    if table.dim() == 3:
        return table if wanted in (None, tuple(table.shape[:2])) else None
    if table.dim() != 2:
        return None
    side = math.isqrt(len(table))
    grid = wanted or Grid(side, side)
    prefix = len(table) - grid.size
    return table[prefix:].view(*grid, table.shape[-1]) if 0 <= prefix <= MOST_PREFIX and grid.size else None
