"""A cache for tensors that depend on the grid alone, by grid, device and dtype."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from loope.core.grid import Grid

MOST = 16  # entries; biases of large grids take tens of megabytes each


class Constants:
    """A cache that is not part of the state dict and is not copied with the module.

    It is a class, not a dictionary, because exporters search a module's dictionaries for unregistered tensors.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Tensor] = {}

    def get(
        self, make: Callable[..., Tensor], grid: Grid, device: torch.device, dtype: torch.dtype, *more: Any
    ) -> Tensor:
        """Return `make(grid, *more)`, cached; floating-point results in `dtype`."""
        key = (make.__name__, grid, device, dtype, *more)
        if key not in self._kept:
            # In a new thread, free of the caller's modes: autocast, inference mode, a tracer's fake tensors and a
            # default device would all leak into a tensor that outlives this call.
            with ThreadPoolExecutor(1) as pool:
                self._kept[key] = pool.submit(_made, make, grid, device, dtype, *more).result()
            while len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]  # the oldest
        return self._kept[key]

    def __len__(self) -> int:
        return len(self._kept)

    def __reduce__(self) -> tuple[type["Constants"], tuple[()]]:
        return Constants, ()  # copies start empty


def _made(make: Callable[..., Tensor], grid: Grid, device: torch.device, dtype: torch.dtype, *more: Any) -> Tensor:
    with torch.device("cpu"):  # `set_default_device` reaches other threads
        made = make(grid, *more)
    return made.to(dtype if made.is_floating_point() else made.dtype).to(device)
