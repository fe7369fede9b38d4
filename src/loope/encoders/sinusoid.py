"""1D sinusoids along a patch order (Eq. `our` with X_C = 0)."""

import torch
from torch import Tensor

from loope.core.errors import one_of, require, require_multiple
from loope.core.grid import Grid, GridLike
from loope.encoders.base import StaticTable, register_encoder
from loope.encoders.frequencies import Frequencies, frequency_set, sinusoids
from loope.orders import Order, create_order

PHASES = ("channel", "checkerboard")


@register_encoder("sinusoid")
class Sinusoid(StaticTable):
    """Sinusoids of the position on a curve, by default the raster order of most transformers.

    Args:
        dim: width D of the tokens, even.
        grid: (height, width) of the grid.
        order: the name of a patch order, or an `Order` (for its own grid only).
        frequencies: "vaswani", "original", "arithmetic", "geometric", "random" or a `(D,)` tensor.
        phase: "channel" has sine on even and cosine on odd channels, and reproduces the paper's numbers;
            "checkerboard" is the paper's equation taken literally, delta = (channel + patch number) mod 2, which
            breaks similarity.
    """

    paper = "Vaswani et al., 2017"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        order: str | Order = "raster",
        frequencies: Frequencies = "vaswani",
        phase: str = "channel",
    ):
        super().__init__(dim, grid)
        require_multiple("dim", self.dim, 2, repr(self.name))
        one_of("phase", phase, PHASES)
        self.order = order
        self.phase = phase
        self.frequencies = frequency_set(frequencies, self.dim)
        self._ordered(self.grid)  # raise for an unknown order now, not at the first image

    def _resample(self, grid: Grid) -> None:
        self._ordered(grid)  # an `Order` object cannot be resized: raise before the grid changes

    def _ordered(self, grid: Grid) -> Order:
        if isinstance(self.order, Order):
            require(
                self.order.grid == grid,
                f"The order given is for a grid of {self.order.grid} cells, got {grid}; give an order by name "
                "(register your own with `register_order`) to use it on every grid.",
            )
            return self.order
        return create_order(self.order, *grid)

    def _index(self, grid: Grid) -> Tensor:
        """Return X_G, `(N,)` float64."""
        return self._ordered(grid).index.flatten().double().cpu()

    def _phase(self, grid: Grid) -> Tensor:
        """Return delta, `(D,)` or `(N, D)` float64."""
        channel = torch.arange(self.dim)
        delta = channel if self.phase == "channel" else channel + torch.arange(grid.size)[:, None]
        return (delta % 2).double()

    def _table(self, grid: Grid) -> Tensor:
        return sinusoids(self._index(grid), self.frequencies, self._phase(grid))[None]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, order={self.order!r}, phase={self.phase!r}"


@register_encoder("gilbert")
class Gilbert(Sinusoid):
    """Sinusoids along the Gilbert curve: the paper's static order X_G.

    Args:
        dim: width D of the tokens, even.
        grid: (height, width) of the grid.
        frequencies: as for `Sinusoid`.
        phase: as for `Sinusoid`.
    """

    paper = "LOOPE, 2026 (static)"

    def __init__(self, dim: int, grid: GridLike, frequencies: Frequencies = "vaswani", phase: str = "channel"):
        super().__init__(dim, grid, "gilbert", frequencies, phase)
