"""LOOPE: a static patch order plus a fractional offset read from the image, then sinusoids (Eq. `our`)."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from loope.core.errors import LoopeError, one_of, require
from loope.core.grid import Grid, GridLike, as_size
from loope.encoders.base import register_encoder
from loope.encoders.frequencies import Frequencies, sinusoids
from loope.encoders.generator import IndexGenerator
from loope.encoders.sinusoid import Sinusoid
from loope.orders import Order
from loope.positions import Positions, PositionsLike, as_positions

Images: TypeAlias = Tensor | Sequence[Tensor] | None
VARIANTS = ("paper", "released")


@register_encoder("loope")
class Loope(Sinusoid):
    """sin(W (X_G + X_C) + pi/2 delta): the order X_G is refined by offsets X_C in [-1, 1] that a small CNN reads.

    Args:
        dim: width D of the tokens, even.
        grid: (height, width) of the grid.
        patch_size: side of a patch in pixels.
        channels: channels of the image.
        order: the static order X_G, as for `Sinusoid`.
        frequencies: as for `Sinusoid`.
        phase: as for `Sinusoid`.
        inputs: the generator's input: "rgb+xy", "rgb" or "xy".
        mixer: its last layer: "linear" as in the paper (depends on the grid), "conv" (does not) or "none".
        activation: "relu" or "gelu"; by default the variant's.
        initialization: "live" ensures that no generator is dead at the start; "torch" is PyTorch's default, with which
            four in ten generators with ReLU are. By default the variant's.
        zero_init: start from X_C = 0, the static order.
        variant: "paper" is the architecture of the paper's text: ReLU, a bias in the last layer, positions from 0.
            "released" is that of the authors' code: GELU, no bias in the last layer, positions from 1,
            PyTorch's initialization, and a learned vector for the class token when attached.

    Examples:
        >>> encoder = Loope(dim=8, grid=(2, 3), patch_size=4)
        >>> images = torch.rand(5, 3, 8, 12)
        >>> encoder(images).shape, encoder.offsets(images).shape
        (torch.Size([5, 6, 8]), torch.Size([5, 6]))
    """

    paper = "LOOPE, 2026"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        patch_size: int,
        channels: int = 3,
        order: str | Order = "gilbert",
        frequencies: Frequencies = "vaswani",
        phase: str = "channel",
        inputs: str = "rgb+xy",
        mixer: str = "linear",
        activation: str | None = None,
        initialization: str | None = None,
        zero_init: bool = False,
        variant: str = "paper",
    ):
        super().__init__(dim, grid, order, frequencies, phase)
        one_of("variant", variant, VARIANTS)
        self.variant = variant
        self.patch_size = as_size(patch_size, "patch_size")
        released = variant == "released"
        self.generator = IndexGenerator(
            self.grid,
            self.patch_size,
            as_size(channels, "channels"),
            inputs=inputs,
            mixer=mixer,
            mixer_bias=not released,
            activation=activation or ("gelu" if released else "relu"),
            initialization=initialization or ("torch" if released else "live"),
            zero_init=zero_init,
        )
        self.reads_content = self.generator.reads_image
        self.prefix = "learned" if released else "none"

    def embed(self, images: Images, positions: Positions) -> Tensor:
        """Return `(B, N, D)`, or `(1, N, D)` if the generator reads coordinates only."""
        place = as_positions(positions)
        frequencies = self.constant("_frequencies", self.grid)
        phase = self._phases(place)
        return sinusoids(self.refined_index(images, place), frequencies, phase).to(self.dtype)

    def offsets(self, images: Images, positions: PositionsLike | None = None) -> Tensor:
        """Return X_C, `(B, N)` in [-1, 1]: how far each patch moves along the curve.

        In training mode this updates BatchNorm's running statistics; call `eval()` first to inspect offsets.

        Args:
            images: `(B, C, H, W)` whole images; a list of `(C, H, W)` if their sizes differ.
            positions: the patches to return; by default all.
        """
        place = self._place(positions)
        if len(place.grids) == 1 and not isinstance(images, Sequence):
            full = self._generated(images, place.grids[0])
            if place.whole is not None:
                return full
            cells = place.nearest()
            rows = max(len(full), len(cells))
            return full.expand(rows, -1).gather(1, cells.expand(rows, -1))
        shown = self._listed(images, place)
        made = [
            self._generated(None if image is None else image[None], grid)[0]
            for image, grid in zip(shown, place.grids, strict=True)
        ]
        return place.pick_each(made)

    def refined_index(self, images: Images, positions: PositionsLike | None = None) -> Tensor:
        """Return X_G + X_C, `(B, N)` in at least float32: the fractional position of each patch on the curve."""
        place = self._place(positions)
        index = self.per_patch("_index", place)
        return index + self.offsets(images, place).to(index.dtype)

    def _generated(self, images: Tensor | None, grid: Grid) -> Tensor:
        """Return X_C of all cells of a grid, `(B or 1, N)`."""
        if self.generator.reads_image:
            self._check(images, grid)
            images = images.to(self.dtype)  # type: ignore[union-attr]
        pixels = self.constant("_pixel_coordinates", grid).to(self.dtype) if self.generator.reads_coordinates else None
        made: Tensor = self.generator(images, pixels, grid)
        return made

    def _listed(self, images: Images, positions: Positions) -> Sequence[Tensor | None]:
        """Return an image, or None if the generator reads none, for each grid."""
        if not self.generator.reads_image:
            return [None] * len(positions.grids)
        require(
            isinstance(images, Sequence)
            and len(images) == len(positions.grids)
            and all(isinstance(image, Tensor) for image in images),
            f"'loope' reads the image: pass a list of {len(positions.grids)} images (C, H, W), one for each grid.",
        )
        return images  # type: ignore[return-value]

    @classmethod
    def own_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        require(
            options.get("zero_init", True) is True,
            "`init='own'` starts 'loope' from X_C = 0, where its vectors are fitted; leave zero_init out.",
        )
        return {"zero_init": True, "project": True}

    def static_vectors(self, grid: GridLike | None = None) -> Tensor:
        place = self._place(grid)
        index = self.per_patch("_index", place)
        return sinusoids(index, self.constant("_frequencies", self.grid), self._phases(place)).to(self.dtype)[0]

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the cosine of the static order's vectors (X_C = 0), `(N, N)`; for images see `encoder_similarity`."""
        static = Sinusoid(self.dim, self.grid if grid is None else grid, self.order, self.frequencies, self.phase)
        return static.to(self._anchor).similarity()

    def _resample(self, grid: Grid) -> None:
        super()._resample(grid)
        self.generator.resize(grid)

    def _index(self, grid: Grid) -> Tensor:
        return super()._index(grid) + (self.variant == "released")

    def _frequencies(self, grid: Grid) -> Tensor:
        return self.frequencies

    def _pixel_coordinates(self, grid: Grid) -> Tensor:
        """Return column x and row y of each pixel, from -1 to 1: `(1, 2, H, W)`."""
        image = Grid(grid.height * self.patch_size, grid.width * self.patch_size)
        row, column = image.unit_coordinates()
        return torch.stack((column, row)).view(1, 2, *image)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, patch_size={self.patch_size}, variant={self.variant!r}"

    def _check(self, images: Tensor | None, grid: Grid) -> None:
        """Check shape and dtype; reading values would synchronize the device."""
        if not isinstance(images, Tensor):
            raise LoopeError("'loope' reads the image: call encoder(images), or create it with inputs='xy'.")
        side, channels = self.patch_size, self.generator.channels
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


def _remedy(height: int, width: int, side: int) -> str:
    if height % side or width % side:
        nearest = (max(side, round(length / side) * side) for length in (height, width))
        return "resize them to {}x{}, multiples of the patch size".format(*nearest)
    return f"call resize(({height // side}, {width // side})), or pass that as positions= for one call"
