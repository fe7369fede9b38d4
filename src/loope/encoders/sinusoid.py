"""1D sinusoids along a patch order (Eq. `our` with X_C = 0)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from loope.core.errors import one_of, require, require_multiple
from loope.core.grid import Grid, GridLike
from loope.encoders.base import register_encoder
from loope.encoders.frequencies import Frequencies, frequency_set, sinusoids
from loope.encoders.refine import Images, Refinable, Refine
from loope.encoders.static import StaticTable
from loope.orders import Order, create_order
from loope.positions import Positions, PositionsLike, as_positions

PHASES = ("channel", "checkerboard")


@register_encoder("sinusoid")
class Sinusoid(Refinable, StaticTable):
    """Sinusoids of the position on a curve, by default the raster order of most transformers.

    A patch between cells has the position of the nearest cell.

    Args:
        dim: width D of the tokens, even.
        grid: (height, width) of the grid.
        order: the name of a patch order, or an `Order` (for its own grid only).
        frequencies: "vaswani", "original", "arithmetic", "geometric", "random" or a `(D,)` tensor.
        phase: "channel" has sine on even and cosine on odd channels, and reproduces the paper's numbers;
            "checkerboard" is the paper's equation taken literally, delta = (channel + patch number) mod 2, which
            breaks similarity.
        refine: "image" moves patches along the curve by what the image shows; options as a dictionary or
            `ImageRefinement`. `loope` is this with the paper's generator.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
    """

    paper = "Vaswani et al., 2017"
    at_other_sizes = "new curve"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        order: str | Order = "raster",
        frequencies: Frequencies = "vaswani",
        phase: str = "channel",
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
    ):
        super().__init__(dim, grid)
        require_multiple("dim", self.dim, 2, repr(self.name))
        one_of("phase", phase, PHASES)
        self.order = order
        self.phase = phase
        self.frequencies = frequency_set(frequencies, self.dim)
        self._ordered(self.grid)  # raise for an unknown order now, not at the first image
        self._refine_by(refine, patch_size, channels, outputs=1)

    def embed(self, images: Images, positions: Positions) -> Tensor:
        """Return `(1 or B, N, D)`."""
        place = as_positions(positions)
        if self.generator is None:
            return self._static(place)
        # The table is rounded from float64; adding the change keeps it exact where nothing moves.
        static = self._sinusoids(self.per_patch("_index", place), place)
        change = self._sinusoids(self.refined_index(images, place), place) - static
        return (self.per_patch("_table", place) + change).to(self.dtype)

    def refined_index(self, images: Images, positions: PositionsLike | None = None) -> Tensor:
        """Return X_G + X_C, `(B, N)` in at least float32: the fractional position of each patch on the curve."""
        place = self._place(positions)
        index = self.per_patch("_index", place)
        return index + self.offsets(images, place).to(index.dtype)

    def _sinusoids(self, index: Tensor, positions: Positions) -> Tensor:
        """Return the sinusoids at fractional positions `(1 or B, N)` on the curve, in at least float32."""
        return sinusoids(index, self.constant("_frequencies", self.grid), self._phases(positions))

    @classmethod
    def own_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        # Vaswani's frequencies span too little of the curve for a table: those below 1/N are almost constant on it.
        return {"frequencies": "arithmetic", **super().own_options(options)}

    def _resample(self, grid: Grid) -> None:
        self._ordered(grid)  # an `Order` object cannot be resized: raise before anything changes
        super()._resample(grid)

    def _ordered(self, grid: Grid) -> Order:
        if isinstance(self.order, Order):
            require(
                self.order.grid == grid,
                f"The order given is for a grid of {self.order.grid} cells, got {grid}; give an order by name "
                "(see `register_order`) to use it on every grid.",
            )
            return self.order
        return create_order(self.order, *grid)

    def _index(self, grid: Grid) -> Tensor:
        """Return X_G, `(N,)` float64."""
        return self._ordered(grid).index.flatten().double().cpu()

    def _frequencies(self, grid: Grid) -> Tensor:
        return self.frequencies

    def _phase(self, grid: Grid) -> Tensor:
        """Return delta, `(D,)` or `(N, D)` float64."""
        channel = torch.arange(self.dim)
        delta = channel if self.phase == "channel" else channel + torch.arange(grid.size)[:, None]
        return (delta % 2).double()

    def _phases(self, positions: Positions) -> Tensor:
        """Return delta for each patch, `(D,)` or `(1 or B, N, D)` in at least float32."""
        if self.phase == "channel":
            return self.constant("_phase", self.grid)
        return self.per_patch("_phase", positions)

    def _table(self, grid: Grid) -> Tensor:
        return sinusoids(self._index(grid), self.frequencies, self._phase(grid))

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
        refine: as for `Sinusoid`.
        patch_size: as for `Sinusoid`.
        channels: as for `Sinusoid`.
    """

    paper = "Chowdhury et al., 2025 (LOOPE, static)"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        frequencies: Frequencies = "vaswani",
        phase: str = "channel",
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
    ):
        super().__init__(dim, grid, "gilbert", frequencies, phase, refine, patch_size, channels)
