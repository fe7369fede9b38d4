"""Rotary encoders with fixed wave vectors in more directions than the axes, and DINOv3's, in units of the image."""

import math
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import GridLike, as_size
from loope.encoders.base import register_encoder
from loope.encoders.refine import Refine
from loope.encoders.rotary import RopeAxial
from loope.encoders.rotary_base import WaveRotary
from loope.encoders.rotary_waves import bands, centred
from loope.positions.augment import Augment

TRAINED_WITH: Augment = MappingProxyType({"rescale": 2.0})  # DINOv3


def along(directions: Tensor, frequencies: Tensor) -> Tensor:
    """Return wave vectors `(..., 2)`, rows first, from angles to the x axis (columns) and lengths, `(...)` each."""
    return torch.stack((directions.sin(), directions.cos()), dim=-1) * frequencies[..., None]


@register_encoder("rope_dinov3")
class RopeDinoV3(RopeAxial):
    """Axial rotary with coordinates from -1 to 1 over the image, whatever its size: 2 pi coordinate / period.

    Coordinates are 2 (i + 1/2) / size - 1, for rows and columns apart. The published DINOv3 models keep their periods
    in bfloat16; here they are exact, as in timm and transformers.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: periods are temperature^(m / (d/4)) for m below d/4, in halves of the image.
        refine: as for `RopeAxial`.
        patch_size: as for `RopeAxial`.
        channels: as for `RopeAxial`.
        layout: as for `RopeAxial`.
        augment: as for `RopeAxial`; DINOv3 was trained with rescale 2 alone.
        fuzzy: as for `RopeAxial`.
        basis: as for `RopeAxial`.
        depth: as for `RopeAxial`.
    """

    paper = "Siméoni et al., 2025 (DINOv3)"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        temperature: float = 100.0,
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
        *,
        layout: str = "half",
        augment: Augment = TRAINED_WITH,
        fuzzy: float = 0.0,
        basis: str | None = None,
        depth: int | None = None,
    ):
        shared: Any = {"layout": layout, "augment": augment, "fuzzy": fuzzy, "basis": basis, "depth": depth}
        super().__init__(dim, grid, heads, temperature, refine, patch_size, channels, **shared)

    def _scaled(self, points: Tensor, sizes: Tensor) -> Tensor:
        return 2 * torch.pi * centred(points, sizes)


@register_encoder("rope_golden")
class RopeGolden(WaveRotary):
    """Each channel pair of each head turns along a direction of its own: multiples of the golden angle.

    Pair number n, counted through all heads, has the direction n pi (sqrt(5) - 1) / 2. Frequencies are the same in
    every head, geometric from 1 / temperature to 1 radian a cell. Xiong measures coordinates in halves of the image;
    here they are cells, as for the other rotary encoders. vit-pytorch has the same frequencies, and Xiong's directions
    for any number of dimensions, which come from another sequence.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: the fastest over the slowest frequency.
        refine: as for `RopeAxial`.
        patch_size: as for `RopeAxial`.
        channels: as for `RopeAxial`.
        layout: as for `RopeAxial`.
        extrapolate: as for `RopeAxial`.
        augment: as for `RopeAxial`.
        fuzzy: as for `RopeAxial`.
        basis: as for `RopeAxial`.
        depth: as for `RopeAxial`.
    """

    paper = "Xiong, 2025"

    def _vectors(self) -> Tensor:
        numbers = torch.arange(self.heads * self.pairs, dtype=torch.float64).view(self.heads, self.pairs)
        rising = self.temperature ** (torch.linspace(0, 1, self.pairs, dtype=torch.float64) - 1)
        return along(numbers * (torch.pi * (math.sqrt(5) - 1) / 2), rising.expand_as(numbers))


@register_encoder("rope_spiral")
class RopeSpiral(WaveRotary):
    """Axial rotary in several frames: uniform directions, with frequencies dealt out to them in turn.

    The frequencies are those of `rope_axial`. Frequency i turns two pairs, along the direction (floor(i / 2) mod K/2)
    pi / K and at a right angle to it, so the K directions k pi / K have distinct frequencies, except for those at right
    angles. Heads of fewer than 4 K channels have fewer directions. Nothing is clamped, where the authors' code clamps
    at the corners.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: as for `RopeAxial`.
        refine: as for `RopeAxial`.
        patch_size: as for `RopeAxial`.
        channels: as for `RopeAxial`.
        directions: number K of directions, even; 2 is `rope_axial` with rows and columns exchanged.
        layout: as for `RopeAxial`.
        extrapolate: as for `RopeAxial`.
        augment: as for `RopeAxial`.
        fuzzy: as for `RopeAxial`.
        basis: as for `RopeAxial`.
        depth: as for `RopeAxial`.
    """

    paper = "Liu et al., 2026"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        temperature: float = 100.0,
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
        *,
        directions: int = 4,
        layout: str = "interleaved",
        extrapolate: str = "none",
        augment: Augment = None,
        fuzzy: float = 0.0,
        basis: str | None = None,
        depth: int | None = None,
    ):
        shared: Any = {"layout": layout, "extrapolate": extrapolate, "augment": augment, "fuzzy": fuzzy}
        shared |= {"basis": basis, "depth": depth}
        super().__init__(dim, grid, heads, temperature, refine, patch_size, channels, **shared)
        self.directions = as_size(directions, "directions")
        require(self.directions % 2 == 0, f"`directions` must be even, got {directions}; they come at right angles.")

    def _vectors(self) -> Tensor:
        count = self.pairs // 2
        twos = torch.arange(count, dtype=torch.float64) // 2
        frames = twos % (self.directions // 2) * (torch.pi / self.directions)
        frequencies = bands(count, self.temperature)
        return torch.cat((along(frames, frequencies), along(frames + torch.pi / 2, frequencies)))[None]


@register_encoder("rope_simplex")
class RopeSimplex(WaveRotary):
    """Three wave vectors at 120 degrees for each of several frequencies, so that no axis is special.

    The scores of equal vectors do not change when positions are turned by 60 degrees, and near a point they fall alike
    in all directions. Frequencies are geometric; pairs that remain after whole threes do not turn. All heads have the
    same vectors, where nD-RoPE turns those of each head and block by a random angle.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4, at least 8.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: as for `RopeAxial`.
        refine: as for `RopeAxial`.
        patch_size: as for `RopeAxial`.
        channels: as for `RopeAxial`.
        layout: as for `RopeAxial`.
        extrapolate: as for `RopeAxial`.
        augment: as for `RopeAxial`.
        fuzzy: as for `RopeAxial`.
        basis: as for `RopeAxial`.
        depth: as for `RopeAxial`.
    """

    paper = "Li et al., 2024 (GridPE); nD-RoPE, 2026"

    def _vectors(self) -> Tensor:
        scales = self.pairs // 3
        corners = torch.arange(3, dtype=torch.float64) * (2 * torch.pi / 3)
        threes = along(corners.repeat(scales), bands(scales, self.temperature).repeat_interleave(3))
        return torch.cat((threes, threes.new_zeros(self.pairs - 3 * scales, 2)))[None]

    def _check_width(self) -> None:
        super()._check_width()
        require(
            self.pairs >= 3, f"{self.name!r} needs heads of at least 8 channels, got {2 * self.pairs}; use fewer heads."
        )
