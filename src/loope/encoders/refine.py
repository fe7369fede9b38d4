"""Encoders whose positions an image refines: LOOPE's generator, on a curve or in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require, shown, unknown
from loope.core.grid import Grid, as_size
from loope.encoders.base import PositionalEncoder
from loope.encoders.generator import ImageRefinement, IndexGenerator
from loope.positions import Positions, PositionsLike

Images: TypeAlias = Tensor | Sequence[Tensor] | None
Refine: TypeAlias = str | ImageRefinement | Mapping[str, Any] | None


def as_refinement(refine: Refine) -> ImageRefinement | None:
    """Read the option `refine`: None, "image", a dictionary of options or an `ImageRefinement`.

    Raises:
        LoopeError: for anything else, or an unknown option.
    """
    if refine is None or isinstance(refine, ImageRefinement):
        return refine
    if isinstance(refine, Mapping):
        known = [field.name for field in fields(ImageRefinement)]
        for option in refine:
            if option not in known:
                raise unknown("option of `refine`:", option, known)
        return ImageRefinement(**refine)
    require(
        isinstance(refine, str) and refine == "image",
        f"`refine` must be None, 'image', a dictionary of its options or a loope.ImageRefinement, got {shown(refine)}.",
    )
    return ImageRefinement()


class Refinable(PositionalEncoder):
    """Base class of encoders that read coordinates, which an image can refine.

    A subclass takes `refine`, `patch_size` and `channels` and passes them to `_refine_by`. In the plane, the blocks
    receive refined positions as data (`refine_positions`), and `embed` refines those that it is given.
    """

    generator: IndexGenerator | None

    def _refine_by(
        self, refine: Refine, patch_size: int | None, channels: int, *, outputs: int = 2, mixer_bias: bool = True
    ) -> None:
        """Create the generator; call it last, so that a seed gives the other parameters what it gives without."""
        options = as_refinement(refine)
        if options is None:
            self.generator = None
            return
        require(
            patch_size is not None,
            f"{self.name!r} with `refine` reads the image and needs `patch_size`; pass patch_size=...",
        )
        self.patch_size = as_size(patch_size, "patch_size")
        self.reads_content = True
        self.generator = IndexGenerator(
            self.grid, self.patch_size, as_size(channels, "channels"), options, outputs=outputs, mixer_bias=mixer_bias
        )

    def offsets(self, images: Images, positions: PositionsLike | None = None) -> Tensor:
        """Return how far the image moves each patch: X_C `(B, N)` along the curve, or `(B, N, 2)` rows and columns.

        In training mode this updates BatchNorm's running statistics; call `eval()` first to inspect offsets.

        Args:
            images: `(B, C, H, W)` whole images; a list of `(C, H, W)` if their sizes differ.
            positions: the patches to return; by default all.

        Raises:
            LoopeError: if the encoder has no `refine`, or the images do not fit.
        """
        place = self._place(positions)
        if len(place.grids) == 1:
            full = self._generated(_stacked(images), place.grids[0])
            if place.whole is not None:
                return full
            cells = place.nearest()
            rows = max(len(full), len(cells))
            cells = cells.expand(rows, -1).view(rows, -1, *[1] * (full.dim() - 2)).expand(-1, -1, *full.shape[2:])
            return full.expand(rows, *full.shape[1:]).gather(1, cells)
        made = [self._generated(image, grid)[0] for image, grid in self._pairs(images, place)]
        return place.pick_each(made)

    def refine_positions(self, images: Images, positions: Positions) -> Positions:
        """Return the positions moved by the image's offsets, unless on a curve, and at random while training."""
        if self.generator is not None and self.generator.outputs == 2:
            points = self._plane(positions)[0]
            positions = positions._replace(moved=points + self.offsets(images, positions).to(points))
        return super().refine_positions(images, positions)

    def _generated(self, images: Tensor | None, grid: Grid) -> Tensor:
        """Return the offsets of all cells of a grid, `(B or 1, N)` or `(B or 1, N, 2)`."""
        generator = self.generator
        if generator is None:
            raise LoopeError(f"{self.name!r} was created without `refine`, so images do not move its patches.")
        if generator.reads_image:
            self._check_images(images, grid)
            images = images.to(self.dtype)  # type: ignore[union-attr]
        pixels = self.constant("_pixel_coordinates", grid).to(self.dtype) if generator.reads_coordinates else None
        made: Tensor = generator(images, pixels, grid)
        return made

    def _pairs(self, images: Images, positions: Positions) -> list[tuple[Tensor | None, Grid]]:
        """Return an image `(1, C, H, W)`, or None if the generator reads none, with each grid."""
        grids = positions.grids
        if self.generator is None or not self.generator.reads_image:
            return [(None, grid) for grid in grids]
        require(
            isinstance(images, Sequence)
            and len(images) == len(grids)
            and all(isinstance(image, Tensor) for image in images),
            f"{self.name!r} reads the image: pass a list of {len(grids)} images (C, H, W), one for each grid.",
        )
        return [(image[None], grid) for image, grid in zip(images, grids, strict=True)]  # type: ignore[arg-type]

    def _resample(self, grid: Grid) -> None:
        super()._resample(grid)
        if self.generator is not None:
            self.generator.resize(grid)

    def _pixel_coordinates(self, grid: Grid) -> Tensor:
        """Return column x and row y of each pixel, from -1 to 1: `(1, 2, H, W)`."""
        image = Grid(grid.height * self.patch_size, grid.width * self.patch_size)
        row, column = image.unit_coordinates()
        return torch.stack((column, row)).view(1, 2, *image)

    def _check_images(self, images: Tensor | None, grid: Grid) -> None:
        """Check shape and dtype; reading values would synchronize the device."""
        if not isinstance(images, Tensor):
            raise LoopeError(
                f"{self.name!r} reads the image: pass images, or create it with inputs='xy' to read coordinates alone."
            )
        side, channels = self.patch_size, self.generator.channels  # type: ignore[union-attr]
        if images.dim() != 4 or images.shape[1] != channels:
            raise LoopeError(f"Expected images of shape (B, {channels}, H, W), got {tuple(images.shape)}.")
        if not images.is_floating_point():
            raise LoopeError(f"Expected floating point images, got {images.dtype}; use images.float() / 255.")
        height, width = images.shape[-2:]
        if (height, width) != (grid.height * side, grid.width * side):
            raise LoopeError(
                f"Expected images of {grid.height * side}x{grid.width * side} pixels for {grid} patches of {side}, "
                f"got {height}x{width}; {_remedy(height, width, side)}."
            )


def _stacked(images: Images) -> Tensor | None:
    """Return a list of images of equal size as one tensor."""
    if images is None or isinstance(images, Tensor):
        return images
    same = all(isinstance(image, Tensor) and image.shape == images[0].shape for image in images)
    return torch.stack(tuple(images)) if images and same else None


def _remedy(height: int, width: int, side: int) -> str:
    if height % side or width % side:
        nearest = (max(side, round(length / side) * side) for length in (height, width))
        return "resize them to {}x{}, multiples of the patch size".format(*nearest)
    return f"call resize(({height // side}, {width // side})), or pass that as positions= for one call"
