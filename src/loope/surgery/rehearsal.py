"""Check that an untrusted file holds the model it describes, before allocating memory for it.

A recipe of a few hundred bytes can describe a model of gigabytes. The safetensors header lists the tensors a file
really has. So a model is first built on torch's `meta` device, which allocates nothing, and only built for real if it
has exactly those tensors. The rehearsal stops as soon as it makes clearly more than the file holds.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, as_grid
from loope.core.limits import MOST_PATCHES
from loope.surgery.adapters.base import adapter_for
from loope.surgery.names import HINT, OURS

MOST_NUMBER = 2**16  # largest integer in a recipe: widths, depths, classes, pixels
MOST_TENSORS = 2048  # in a file; the largest vision transformers have about a thousand
MOST_ENCODERS = 16
MOST_STRANGE = 64  # temporary parameters, such as the dropped classifier of a backbone
SPARE = 2**20  # elements allowed beyond those of the file
EXTRA_STATE = f"{OURS}_extra_state"  # its length depends on how the recipe is written
OPTIONAL = {EXTRA_STATE, f"{OURS}{HINT}"}  # older files do not have the latter
FILLING = {
    getattr(torch.Tensor, f"{name}_") for name in ["uniform", "normal", "erfinv", "mul", "add", "clamp", "fill", "zero"]
}

Shape = tuple[int, ...]


def require_modest(recipe: Any, tensors: int, most: int = MOST_NUMBER) -> None:
    """Check the size of a recipe before building anything from it.

    Args:
        recipe: plain data.
        tensors: number of tensors in the file, which bounds the number of blocks.
        most: the largest integer allowed.

    Raises:
        LoopeError: if a number is larger than any model needs, or the file has more tensors than any model.
    """
    require(tensors <= MOST_TENSORS, f"A model in a file may have up to {MOST_TENSORS:,} tensors, got {tensors:,}.")
    if isinstance(recipe, dict):
        for key, value in recipe.items():
            require_modest(value, tensors, tensors if "depth" in key or "layers" in key else most)
    elif isinstance(recipe, list):
        for value in recipe:
            require_modest(value, tensors, most)
    elif isinstance(recipe, int):
        require(abs(recipe) <= most, f"The file describes a model with {recipe:,} where up to {most:,} are possible.")


def rehearse(
    build: Callable[[], nn.Module], add: Callable[[nn.Module], object], size: Any, shapes: Mapping[str, Shape]
) -> None:
    """Build a model on `meta` and compare it with a file; the arguments are those of `build_bounded`.

    Raises:
        LoopeError: if the model would not have exactly the file's tensors.
    """
    model = build_bounded(build, add, size, shapes)
    made = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    names = (made.keys() | shapes.keys()) - OPTIONAL
    different = sorted(name for name in names if made.get(name) != shapes.get(name))
    require(
        not different,
        f"The file does not hold the model that it describes: {len(different)} tensors are missing, too many or of "
        f"another shape, {', '.join(different[:3])} for example.",
    )


def build_bounded(
    build: Callable[[], nn.Module], add: Callable[[nn.Module], object], size: Any, shapes: Mapping[str, Shape]
) -> nn.Module:
    """Build a model on `meta` that is not clearly larger than a file.

    Args:
        build: builds the model.
        add: attaches the encoders to it, for images of `size`.
        size: (height, width) of the images in pixels.
        shapes: shapes of the file's tensors, by name.

    Raises:
        LoopeError: as soon as the model has more elements than the file.
    """
    held = sum(map(math.prod, shapes.values()))
    with _counted(shapes, 2 * held + 4 * SPARE):
        with torch.device("meta"), _Unfilled():
            model = build()
        for branch in adapter_for(model).branches():
            wanted = as_grid(size, "size")
            cells = Grid(wanted.height // branch.patch_size, wanted.width // branch.patch_size)
            for grid in (branch.grid, cells):
                require(
                    grid.size <= MOST_PATCHES and grid.size * branch.dim <= held + SPARE,
                    f"The file has {held:,} numbers, but describes a model for a grid of {grid} patches.",
                )
        with _BoundedFactories(held + SPARE):  # encoders are created on the CPU, then moved to `meta`
            add(model)
    return model


@contextmanager
def _counted(shapes: Mapping[str, Shape], most: int) -> Iterator[None]:
    """Raise `LoopeError` inside a module's constructor once it registers more than the file holds."""
    left = Counter(shapes.values())
    seen: dict[int, torch.Tensor] = {}  # kept alive, so that no id is reused
    strange = total = 0
    thread = threading.get_ident()  # the hooks are called for modules of every thread

    def count(module: nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        nonlocal strange, total
        if tensor is None or id(tensor) in seen or threading.get_ident() != thread:
            return
        seen[id(tensor)] = tensor
        total += tensor.numel()
        if isinstance(tensor, nn.Parameter):
            shape = tuple(tensor.shape)
            left[shape] -= 1
            strange += left[shape] < 0
        require(total <= most and strange <= MOST_STRANGE, "The model that the file describes is larger than the file.")

    hooks = register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Unfilled(TorchFunctionMode):
    """Skips initialization of `meta` tensors, which makes building four times as fast."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in FILLING and args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))


class _BoundedFactories(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to create tensors of more than `most` elements, before they are allocated."""

    def __init__(self, most: int):
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if not any(isinstance(value, torch.Tensor) for value in given):
            sizes = [math.prod(value) for value in given if isinstance(value, list) and _whole(value)]
            counts = [value for value in given if _whole([value])]
            if max([*sizes, *counts], default=0) > self.most:
                raise LoopeError("An encoder that the file describes is larger than the file.")
        return func(*args, **(kwargs or {}))


def _whole(values: list[Any]) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
