"""What a patch order is: a bijection from the cells of a grid to positions on a curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, as_grid
from loope.core.registry import Registry
from loope.orders.locality import Locality, locality

# Whole numbers, one for each cell. Orders are made by NumPy, on the calling thread: PyTorch would split every step over
# threads that wait for each other, which takes longer than the step itself as soon as something else keeps a core busy.
Cells: TypeAlias = NDArray[np.int64]
# A curve maps a grid to the `(h, w)` int64 position of each cell.
Curve = Callable[[Grid], Tensor]
_CURVES: Registry[Curve] = Registry("order")
register_order = _CURVES.register
list_orders = _CURVES.names


@dataclass(frozen=True, eq=False)
class Order:
    """A bijection from the cells of a grid to 0..N-1.

    Attributes:
        index: `(h, w)` int64, the position of each cell on the curve.
        name: what the order is called.

    Examples:
        >>> order = create_order("snake", 2, 3)
        >>> order.index.tolist()
        [[0, 1, 2], [5, 4, 3]]
        >>> order.path[3].tolist()
        [1, 2]

    Raises:
        LoopeError: if `index` does not hold each of 0..N-1 exactly once.
    """

    index: Tensor
    name: str = "custom"

    def __post_init__(self) -> None:
        index = self.index
        if not isinstance(index, Tensor) or index.dim() != 2 or index.numel() == 0 or index.dtype != torch.int64:
            came = f"{index.dtype} {tuple(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
            raise LoopeError(f"`index` of an order must be an (h, w) int64 tensor with at least one cell, got {came}.")
        require(not index.is_meta, "`index` of an order must hold values, got a meta tensor; make it on the CPU.")
        if not _is_permutation(self._flat):
            raise LoopeError(f"`index` of an order must hold each of 0..{index.numel() - 1} exactly once.")

    @property
    def grid(self) -> Grid:
        """The grid that is ordered."""
        return Grid(*self.index.shape)

    @cached_property
    def path(self) -> Tensor:
        """`(N, 2)` int64: row and column of each position; the inverse of `index`."""
        cells = inverse(self._flat)
        path = np.stack(np.divmod(cells, self.grid.width), axis=1)
        return torch.from_numpy(path).to(self.index.device)

    @property
    def _flat(self) -> Cells:
        return self.index.detach().cpu().numpy().ravel()

    def reverse(self) -> Order:
        """The same curve walked from its end."""
        return Order(self.index.numel() - 1 - self.index, f"{self.name} reversed")

    def transpose(self) -> Order:
        """The curve mirrored at the main diagonal: an `h x w` order becomes a `w x h` one."""
        return Order(self.index.T.contiguous(), f"{self.name} transposed")

    def locality(self) -> Locality:
        """How well neighbours stay neighbours; see `Locality` for the scores."""
        return locality(self.index)

    def __repr__(self) -> str:
        return f"Order({self.name!r}, {self.grid})"


def inverse(permutation: Cells) -> Cells:
    """The inverse of a `(N,)` permutation, without sorting."""
    out = np.empty_like(permutation)
    out[permutation] = np.arange(len(permutation))
    return out


def as_index(positions: Cells) -> Tensor:
    """An `(h, w)` array of positions as the tensor that a curve returns."""
    return torch.from_numpy(np.ascontiguousarray(positions, dtype=np.int64))


def _is_permutation(positions: Cells) -> bool:
    if positions.min() < 0 or positions.max() >= len(positions):
        return False
    seen = np.zeros(len(positions), dtype=np.bool_)
    seen[positions] = True
    return bool(seen.all())


def create_order(name: str, height: int, width: int) -> Order:
    """The order `name` on a grid of `height` x `width` cells.

    Examples:
        >>> create_order("gilbert", 2, 2).index.tolist()
        [[0, 3], [1, 2]]

    Raises:
        LoopeError: for an unknown name (the message lists the known ones) or sizes below 1.
    """
    grid = as_grid((height, width))
    with torch.device("cpu"):  # an order is data, also where a default device holds no values, such as meta
        order = Order(_CURVES[name](grid), name)
    require(order.grid == grid, f"The order {name!r} gave a grid of {order.grid} cells when asked for {grid}.")
    return order
