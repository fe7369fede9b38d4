"""2D sinusoids: row and column concatenated, or, as in the paper's baseline, added."""

import torch
from torch import Tensor

from loope.core.errors import require_multiple
from loope.core.grid import GridLike
from loope.encoders.base import register_encoder
from loope.encoders.frequencies import sinusoids, vaswani
from loope.encoders.refine import Refinable, Refine
from loope.encoders.static import StaticTable
from loope.positions.plane import unit


def _axis(position: Tensor, dim: int) -> Tensor:
    """Return the sinusoids of one axis, `(..., N, dim)`: sine on even and cosine on odd channels."""
    phase = torch.arange(dim, device=position.device, dtype=position.dtype) % 2
    return sinusoids(position, vaswani(dim).to(position), phase)


@register_encoder("sincos2d")
class SinCos2d(Refinable, StaticTable):
    """Half of the width encodes the row, half the column.

    Args:
        dim: width D of the tokens, a multiple of 4.
        grid: (height, width) of the grid.
        refine: "image" moves patches by what the image shows; options as a dictionary or `ImageRefinement`.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
        fuzzy: while training, each patch moves by up to this many cells along each axis (ViTAR has 0.5).
    """

    paper = "Chen et al., 2021"
    continuous = True

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
        fuzzy: float = 0.0,
    ):
        super().__init__(dim, grid)
        require_multiple("dim", self.dim, 4, repr(self.name))
        self._augment_by(fuzzy=fuzzy)
        self._refine_by(refine, patch_size, channels)

    def _vectors(self, points: Tensor, sizes: Tensor) -> Tensor:
        return torch.cat([_axis(axis, self.dim // 2) for axis in points.unbind(-1)], dim=-1)


@register_encoder("sincos2d_sum")
class SinCos2dSum(Refinable, StaticTable):
    """Sinusoids of row and column added, coordinates from -1 to 1: the 2D baseline of the paper's released code.

    A sum cannot distinguish (a, b) from (b, a): cells mirrored at the diagonal of a square grid get the same vector.

    Args:
        dim: width D of the tokens, even.
        grid: (height, width) of the grid.
        refine: as for `SinCos2d`.
        patch_size: as for `SinCos2d`.
        channels: as for `SinCos2d`.
    """

    paper = "Chowdhury et al., 2025 (LOOPE, baseline)"
    continuous = True

    def __init__(
        self, dim: int, grid: GridLike, refine: Refine = None, patch_size: int | None = None, channels: int = 3
    ):
        super().__init__(dim, grid)
        require_multiple("dim", self.dim, 2, repr(self.name))
        self._refine_by(refine, patch_size, channels)

    def _vectors(self, points: Tensor, sizes: Tensor) -> Tensor:
        row, column = unit(points, sizes).unbind(-1)
        return _axis(row, self.dim) + _axis(column, self.dim)
