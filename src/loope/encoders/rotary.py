"""Rotary encoders in 2D: queries and keys are rotated by angles that grow with row and column.

Computed on real numbers: channel pairs (0, 1), (2, 3), ... are rotated as points in a plane.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from loope.core.errors import one_of, require_multiple
from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.base import register_encoder
from loope.encoders.refine import Refinable, Refine
from loope.positions import Positions, PositionsLike, as_positions

SCALINGS = ("axis", "height")


def waves(angles: Tensor) -> Tensor:
    """Return cosines and signed sines of angles `(..., N, d/2)` for `turn`: `(2, ..., N, d)`."""
    cos, sin = angles.cos()[..., None], angles.sin()[..., None]
    # Broadcasting, because stacking along the last dimension copies number by number, in twice the time.
    signs = torch.arange(-1, 2, 2, dtype=angles.dtype, device=angles.device)
    return torch.stack((cos.expand(*angles.shape, 2), sin * signs)).flatten(-2)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the channel pairs of `x` `(..., N, d)` by the angles of `waves`: (a cos - b sin, b cos + a sin)."""
    # Whole rows at once: reading every other channel would take a third longer.
    swapped = x.view(*x.shape[:-1], -1, 2).flip(-1).flatten(-2)
    return torch.addcmul(x * cos, swapped, sin)


class Rotary(Refinable, ABC):
    """Base class of rotary encoders: `angles` returns the angle of each channel pair of each head.

    `rotate` takes positions that are refined already, if they are: the blocks do not see the images.
    """

    reads_content = False

    def __init__(self, dim: int, grid: GridLike, heads: int):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")
        require_multiple("dim", self.dim, 4 * self.heads, f"{self.name!r} with {self.heads} heads")
        self.pairs = self.dim // self.heads // 2

    @abstractmethod
    def angles(self, positions: PositionsLike, layer: int) -> Tensor:
        """Return the angles, `(1 or B, heads or 1, N, d/2)` in at least float32."""

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys by their positions, so that scores depend on offsets."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        self._check_tokens(k, place)
        cos, sin = self.waves(place, layer).to(q.dtype)
        return turn(q, cos, sin), turn(k, cos, sin)

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rotate by the angles times `strength`."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        cos, sin = self.waves_at(place, layer, strength).to(q.dtype)
        return turn(q, cos, sin), turn(k, cos, sin)

    def waves(self, positions: Positions, layer: int) -> Tensor:
        """Return cosines and sines of the angles for `turn`: `(2, 1 or B, heads or 1, N, d)` in at least float32."""
        return waves(self.angles(positions, layer))

    def waves_at(self, positions: Positions, layer: int, strength: Tensor | None) -> Tensor:
        """Return cosines and sines of the angles times `strength`; None stands for 1."""
        return self.waves(positions, layer) if strength is None else waves(self.angles(positions, layer) * strength)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the mean cosine of the angle between two positions over heads, frequencies and blocks, `(N, N)`.

        It is the score of two equal vectors whose channel pairs have equal length.
        """
        place = self._place(grid)
        total = torch.stack([self._kernel(self.angles(place, layer)[0]) for layer in range(self._layers())])
        return total.mean(0)

    def _layers(self) -> int:
        return 1

    @staticmethod
    def _kernel(angles: Tensor) -> Tensor:
        # cos(a - b) = cos a cos b + sin a sin b, summed as a product of matrices.
        parts = torch.cat((angles.cos(), angles.sin()), dim=-1).transpose(0, 1).flatten(1)
        return parts @ parts.T / angles[:, 0].numel()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"


@register_encoder("rope_axial")
class RopeAxial(Rotary):
    """Half of the channel pairs turn with the row, half with the column.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: the slowest pair turns about 1 / temperature a cell.
        refine: "image" moves patches by what the image shows; options as a dictionary or `ImageRefinement`.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
    """

    paper = "Heo et al., 2024"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        temperature: float = 100.0,
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
    ):
        super().__init__(dim, grid, heads)
        self.temperature = as_positive(temperature, "temperature")
        self._refine_by(refine, patch_size, channels)

    def angles(self, positions: PositionsLike, layer: int) -> Tensor:
        """Return `(1 or B, 1, N, d/2)`: half of the pairs turn with the row, the others with the column."""
        place = as_positions(positions)
        if place.moved is None:
            return self.per_patch("_angles", place)[:, None]
        return self._turns(*self._plane(place)).to(self.wide)[:, None]

    def waves(self, positions: Positions, layer: int) -> Tensor:
        if positions.whole is not None:
            return self.constant("_waves", positions.whole)
        return waves(self._turns(*self._plane(positions))).to(self.wide)[:, :, None]  # rounded once, as constants are

    def _turns(self, points: Tensor, sizes: Tensor) -> Tensor:
        """Return the angles at `points` `(1 or B, N, 2)` in grids of `sizes`, `(1 or B, N, d/2)`."""
        count = self.pairs // 2
        bands = self.temperature ** (-torch.arange(count, dtype=points.dtype, device=points.device) / count)
        row, column = self._scaled(points, sizes)[..., None].unbind(-2)
        return torch.cat((row * bands, column * bands), dim=-1)

    def _angles(self, grid: Grid) -> Tensor:
        return self._turns(*Positions((grid,)).plane(torch.float64))[0]

    def _waves(self, grid: Grid) -> Tensor:
        return waves(self._angles(grid))[:, None, None]

    def _scaled(self, points: Tensor, sizes: Tensor) -> Tensor:
        return points


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
    ):
        super().__init__(dim, grid, heads)
        count = self.pairs // 2
        bands = as_positive(temperature, "temperature") ** (-torch.arange(count) / count)
        # Each head starts as axial rotary in a randomly rotated frame.
        frame = torch.rand(as_size(depth, "depth"), self.heads, 1) * 2 * torch.pi
        direction = torch.cat((frame.expand(-1, -1, count), frame.expand(-1, -1, count) + torch.pi / 2), dim=-1)
        self.frequencies = nn.Parameter(torch.stack((direction.cos(), direction.sin())) * bands.repeat(2))
        self._refine_by(refine, patch_size, channels)

    def angles(self, positions: PositionsLike, layer: int) -> Tensor:
        """Return row and column times their learned frequencies, `(1 or B, heads, N, d/2)`."""
        self._check_layer(layer, self._layers())
        place = as_positions(positions)
        moved = place.moved is not None
        points = self._plane(place)[0].to(self.wide) if moved else self.per_patch("_coordinates", place)
        row, column = points[:, None, :, :, None].unbind(-2)  # (1 or B, 1, N, 1) each
        frequencies = self.frequencies[:, layer, :, None].to(row.dtype)  # (2, heads, 1, d/2)
        return row * frequencies[0] + column * frequencies[1]

    def no_weight_decay(self) -> set[str]:
        return {"frequencies"}

    def _layers(self) -> int:
        return self.frequencies.shape[1]

    def _coordinates(self, grid: Grid) -> Tensor:
        return Positions((grid,)).plane(torch.float64)[0][0]


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
    ):
        super().__init__(dim, grid, heads, temperature, refine, patch_size, channels)
        self.base = as_size(base, "base")
        one_of("scaling", scaling, SCALINGS)
        self.scaling = scaling

    def _scaled(self, points: Tensor, sizes: Tensor) -> Tensor:
        across = sizes if self.scaling == "axis" else sizes[..., :1]
        return points * (torch.full_like(across, self.base) / across)  # a number / tensor would round twice
