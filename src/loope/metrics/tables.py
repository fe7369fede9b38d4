"""The table of positions among a trained model's weights: found by name and shape, without its prefix tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from loope.core.errors import LoopeError, nearest_first, require
from loope.core.grid import Grid, GridLike, as_grid
from loope.core.network import hub_or_cache

Weights: TypeAlias = str | Path | Mapping[str, Tensor]

# pos_embed (timm), position_embeddings (transformers), positional_embedding (CLIP), pos_embedding (torchvision), ...
NAMED = re.compile(r"(^|\.)(absolute_)?pos(ition(al)?)?_embed(ding)?s?([._]\d+)?(\.weight)?$")
MOST_PREFIX = 8  # class, distillation and register tokens. A text model's table has more left over than that.


def position_table(weights: Weights, grid: GridLike | None = None, name: str | None = None) -> Tensor:
    """The learned positions of a model's patches, ready for `loope.pesi`.

    Args:
        weights: a `.safetensors` file, of which only the table is read, or a state dict.
        grid: (height, width) of the patches; if not given, the square that leaves the fewest prefix tokens.
        name: the tensor's name, where there are several tables.

    Returns:
        `(h, w, D)` in the table's own dtype. Prefix tokens come first in a table; they have no place and are left out.

    Raises:
        LoopeError: if there is no table, none that fits the grid, or more than one.

    Examples:
        >>> import torch
        >>> position_table({"pos_embed": torch.rand(1, 197, 8), "head.weight": torch.rand(10, 8)}).shape
        torch.Size([14, 14, 8])
        >>> position_table({"pos_embed": torch.rand(1, 197, 8)}, grid=(7, 28)).shape
        torch.Size([7, 28, 8])
    """
    tables = _candidates(weights, name)
    wanted = None if grid is None else as_grid(grid)
    there = ", ".join(f"{key} {tuple(table.shape)}" for key, table in tables.items())
    fitting = [patches for table in tables.values() if (patches := _patches(table, wanted)) is not None]
    require(
        bool(fitting),
        f"No table of positions fits {wanted or 'a square grid'} with up to {MOST_PREFIX} prefix tokens; there is "
        f"{there}. Pass the grid of the patches.",
    )
    require(len(fitting) == 1, f"There is more than one table of positions: {there}; pass the name of one.")
    return fitting[0]


def model_table(
    model: str, checkpoint: Path | None = None, grid: GridLike | None = None, name: str | None = None
) -> Tensor:
    """The learned positions of a timm model's patches: its own grid is known, also where it is not square.

    Args:
        model: the model's name.
        checkpoint: a `.safetensors` file of its weights, of which only the table is read; timm's own if not given.
        grid: (height, width) of the patches; the model's if not given.
        name: the tensor's name, where there are several tables.

    Returns:
        `(h, w, D)`.

    Raises:
        LoopeError: if timm has no such model or cannot load it, and as `position_table` does.
    """
    try:
        import timm
    except ImportError:
        raise LoopeError("Models by name need timm: pip install 'loope[models]'.") from None
    near = ", ".join(nearest_first(model, timm.list_models())[:5])
    require(timm.is_model(model), f"timm has no model {model!r}; nearest are {near}.")
    try:
        with hub_or_cache() if checkpoint is None else nullcontext():
            made = timm.create_model(model, pretrained=checkpoint is None)
    except Exception as error:  # whatever the hub and the network may raise
        raise LoopeError(
            f"timm cannot load {model!r}: {error}; give a file of its weights (checkpoint=, --checkpoint)."
        ) from None
    own = getattr(made.patch_embed, "grid_size", None)
    return position_table(made.state_dict() if checkpoint is None else checkpoint, grid or own, name)


def _candidates(weights: Weights, name: str | None) -> dict[str, Tensor]:
    """The tensor of that name, or all that are called like a table of positions."""
    if not isinstance(weights, Mapping):
        return _read(Path(weights), name)
    chosen = _choose(list(weights), name)
    return {key: weights[key].detach() for key in chosen}


def _choose(keys: list[str], name: str | None) -> list[str]:
    if name is not None:
        require(name in keys, f"There is no tensor {name!r}; nearest are {', '.join(nearest_first(name, keys)[:5])}.")
        return [name]
    chosen = [key for key in keys if NAMED.search(key)]
    require(
        bool(chosen), "There is no table of positions, such as 'pos_embed'; pass the name of the tensor if it has one."
    )
    return chosen


def _read(path: Path, name: str | None) -> dict[str, Tensor]:
    """Only a table's bytes are read, and nothing is unpickled."""
    require(
        path.suffix == ".safetensors",
        f"A checkpoint must be a .safetensors file, got {path.name!r}: others may run code when opened. Convert it "
        "with safetensors.torch.save_file(torch.load(path, weights_only=True), new_path).",
    )
    require(path.is_file(), f"There is no file {str(path)!r}.")
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise LoopeError("Reading checkpoints needs safetensors: pip install 'loope[models]'.") from None
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in _choose(list(file.keys()), name)}
    except SafetensorError as error:
        raise LoopeError(f"{path.name!r} is no whole .safetensors file: {error}; fetch it again.") from None


def _patches(table: Tensor, wanted: Grid | None) -> Tensor | None:
    """`(h, w, D)` out of `(tokens, D)`, `(1, tokens, D)` or `(1, h, w, D)`; None if that cannot be."""
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
