"""Rotary encoders along the axes and along learned directions."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import one_of
from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.base import register_encoder
from loope.encoders.refine import Refine
from loope.encoders.rotary_base import Rotary, WaveRotary
from loope.encoders.rotary_waves import bands
from loope.positions import Positions
from loope.positions.augment import Augment

SCALINGS = ("axis", "height")


@register_encoder("rope_axial")
class RopeAxial(WaveRotary):
    """Half of the channel pairs turn with the row, half with the column.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: the slowest pair turns about 1 / temperature a cell.
        refine: "image" moves patches by what the image shows; options as a dictionary or `ImageRefinement`.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
        layout: the channels of a pair: "interleaved" (0, 1), (2, 3), ... or "half" (0, d/2), (1, d/2 + 1), ...
        extrapolate: coordinates on other grids than the first: "none", "linear" or "ntk", see `Rotary`.
        augment: random moves while training, such as {"shift": 0.1, "jitter": 1.1, "rescale": 2.0}.
        fuzzy: while training, each patch moves by up to this many cells along each axis (ViTAR has 0.5).
        basis: a learned basis of the rotations: "orthogonal", "svd" or "commuting", see `Rotary`.
        depth: blocks of the model, for `basis`.
    """

    paper = "Heo et al., 2024"

    def _vectors(self) -> Tensor:
        along = bands(self.pairs // 2, self.temperature)
        still = torch.zeros_like(along)
        rows, columns = torch.stack((along, still), dim=-1), torch.stack((still, along), dim=-1)
        return torch.cat((rows, columns))[None]


@register_encoder("rope_mixed")
class RopeMixed(Rotary):
    """Each channel pair turns with a learned mixture of row and column, for each block and head.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        temperature: as for `RopeAxial`, at the start.
        refine: as for `RopeAxial`; every block gets the same refined positions.
        patch_size: as for `RopeAxial`.
        channels: as for `RopeAxial`.
        layout: as for `RopeAxial`.
        extrapolate: as for `RopeAxial`.
        augment: as for `RopeAxial`.
        fuzzy: as for `RopeAxial`.
        basis: as for `RopeAxial`.
    """

    paper = "Heo et al., 2024"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        depth: int,
        temperature: float = 10.0,
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
        *,
        layout: str = "interleaved",
        extrapolate: str = "none",
        augment: Augment = None,
        fuzzy: float = 0.0,
        basis: str | None = None,
    ):
        shared: Any = {"layout": layout, "extrapolate": extrapolate, "augment": augment, "fuzzy": fuzzy, "basis": basis}
        super().__init__(dim, grid, heads, depth=depth, **shared)
        count = self.pairs // 2
        falling = as_positive(temperature, "temperature") ** (-torch.arange(count) / count)
        # Each head starts as axial rotary in a randomly rotated frame.
        frame = torch.rand(as_size(depth, "depth"), self.heads, 1) * 2 * torch.pi
        direction = torch.cat((frame.expand(-1, -1, count), frame.expand(-1, -1, count) + torch.pi / 2), dim=-1)
        self.frequencies = nn.Parameter(torch.stack((direction.cos(), direction.sin())) * falling.repeat(2))
        self._refine_by(refine, patch_size, channels)

    def _plain_angles(self, positions: Positions, layer: int) -> Tensor:
        """Return row and column times their learned frequencies, `(1 or B, heads, N, d/2)`."""
        self._check_layer(layer, self._layers())
        if positions.moved is None:
            points = self.per_patch("_coordinates", positions)
            factors = None if self.extrapolate == "none" else self.per_patch("_grid_factors", positions)
        else:
            points, sizes = (each.to(self.wide) for each in self._plane(positions))
            factors = self._factors(sizes)
        return self._turns(points, factors, self.frequencies[:, layer].movedim(0, -1).to(points.dtype))

    @classmethod
    def own_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return slower frequencies, as of `RopeAxial`: a pretrained model can keep what it compares in slow pairs."""
        return {"temperature": 100.0} if "temperature" in signature(cls).parameters else {}

    def no_weight_decay(self) -> set[str]:
        return {"frequencies"} | super().no_weight_decay()

    def _layers(self) -> int:
        return self.frequencies.shape[1]

    def _coordinates(self, grid: Grid) -> Tensor:
        return Positions((grid,)).plane(torch.float64)[0][0]

    def _grid_factors(self, grid: Grid) -> Tensor:
        return torch.tensor(self.trained, dtype=torch.float64).expand(grid.size, 2) / torch.tensor(grid)


@register_encoder("as2drope")
class ScaledRope(RopeAxial):
    """Axial rotary with coordinates scaled to a base grid, so that other resolutions stay in the trained range.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        base: side of the grid to which coordinates are scaled.
        temperature: as for `RopeAxial`.
        scaling: "axis" scales rows by base / height and columns by base / width; "height" scales both by
            base / height, as VisionLLaMA's code does. They differ on grids that are not square.
        refine: as for `RopeAxial`.
        patch_size: as for `RopeAxial`.
        channels: as for `RopeAxial`.
        layout: as for `RopeAxial`.
        augment: as for `RopeAxial`.
        fuzzy: as for `RopeAxial`.
        basis: as for `RopeAxial`.
        depth: as for `RopeAxial`.
    """

    paper = "Chu et al., 2024 (VisionLLaMA)"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        base: int = 14,
        temperature: float = 10_000.0,
        scaling: str = "axis",
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
        *,
        layout: str = "interleaved",
        augment: Augment = None,
        fuzzy: float = 0.0,
        basis: str | None = None,
        depth: int | None = None,
    ):
        shared: Any = {"layout": layout, "augment": augment, "fuzzy": fuzzy, "basis": basis, "depth": depth}
        super().__init__(dim, grid, heads, temperature, refine, patch_size, channels, **shared)
        self.base = as_size(base, "base")
        one_of("scaling", scaling, SCALINGS)
        self.scaling = scaling

    def _scaled(self, points: Tensor, sizes: Tensor) -> Tensor:
        across = sizes if self.scaling == "axis" else sizes[..., :1]
        return points * (torch.full_like(across, self.base) / across)  # a number / tensor would round twice
