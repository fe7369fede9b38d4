"""The base of rotary encoders: queries and keys are rotated by angles that grow with row and column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from loope.core.errors import one_of, require_multiple
from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.constants import Constants
from loope.encoders.refine import Refinable, Refine
from loope.encoders.rotary_basis import make_basis
from loope.encoders.rotary_waves import slowness, turn_both, waves
from loope.positions import Positions, PositionsLike, as_positions
from loope.positions.augment import Augment

LAYOUTS = ("interleaved", "half")
EXTRAPOLATIONS = ("none", "linear", "ntk")


class Rotary(Refinable, ABC):
    """Base class of rotary encoders: `angles` returns the angle of each channel pair of each head.

    `rotate` takes positions that are refined already, if they are: the blocks do not see the images.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        layout: the channels of a pair: "interleaved" (0, 1), (2, 3), ... or "half" (0, d/2), (1, d/2 + 1), ...
        extrapolate: coordinates on other grids than the first. "none" keeps them in cells. "linear" scales rows and
            columns to the first grid, as `as2drope` does. "ntk" does so for the slowest pair, keeps the fastest as it
            is, and interpolates the factor geometrically by frequency between them.
        augment: random moves while training, such as {"shift": 0.1, "jitter": 1.1, "rescale": 2.0}; see
            `Augmentation`.
        fuzzy: while training, each patch moves by up to this many cells along each axis.
        basis: a learned basis of the rotations, for each block and head: "orthogonal" (STRING), "svd" (HARoPE) or
            "commuting" (ComRoPE). All start as the identity.
        depth: blocks of the model, for `basis`.
    """

    reads_content = False

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        *,
        layout: str = "interleaved",
        extrapolate: str = "none",
        augment: Augment = None,
        fuzzy: float = 0.0,
        basis: str | None = None,
        depth: int | None = None,
    ):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")
        self.pairs = self.dim // self.heads // 2
        self._check_width()
        one_of("layout", layout, LAYOUTS)
        one_of("extrapolate", extrapolate, EXTRAPOLATIONS)
        self._augment_by(augment, fuzzy)
        self.layout = layout
        self.extrapolate = extrapolate
        self.basis = make_basis(basis, depth, self.heads, 2 * self.pairs, layout)
        self.trained = self.grid
        if extrapolate != "none":  # in checkpoints, because a model may be saved after it was resized
            self.register_buffer("trained_grid", torch.tensor(self.grid))

    def _check_width(self) -> None:
        """Check the width of the heads."""
        require_multiple("dim", self.dim, 4 * self.heads, f"{self.name!r} with {self.heads} heads")

    @abstractmethod
    def _plain_angles(self, positions: Positions, layer: int) -> Tensor:
        """Return the angles without a basis, `(1 or B, heads or 1, N, d/2)` in at least float32."""

    def angles(self, positions: PositionsLike, layer: int) -> Tensor:
        """Return the angles, `(1 or B, heads or 1, N, d/2)` in at least float32."""
        angles = self._plain_angles(as_positions(positions), layer)
        if self.basis is None or not self.basis.learns_angles:
            return angles
        self._check_layer(layer, self.basis.depth)
        return angles * self.basis.factors(layer).to(angles.dtype)

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys by their positions, so that scores depend on offsets."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        self._check_tokens(k, place)
        return turn_both(q, k, self.waves(place, layer), self.layout, *self.matrix_at(layer, None))

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rotate by the angles, and in a basis by its angles too, times `strength`."""
        place = as_positions(positions)
        self._check_tokens(q, place)
        return turn_both(q, k, self.waves_at(place, layer, strength), self.layout, *self.matrix_at(layer, strength))

    def waves(self, positions: Positions, layer: int) -> Tensor:
        """Return cosines and sines of the angles for `turn`: `(2, 1 or B, heads or 1, N, d)` in at least float32."""
        return waves(self.angles(positions, layer), self.layout)

    def waves_at(self, positions: Positions, layer: int, strength: Tensor | None) -> Tensor:
        """Return cosines and sines of the angles times `strength`; None stands for 1."""
        if strength is None:
            return self.waves(positions, layer)
        return waves(self.angles(positions, layer) * strength, self.layout)

    def matrix_at(self, layer: int, strength: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return the basis at a strength for `turn_both`: `(heads, d, d)` or None, and whether channels turn back."""
        if self.basis is None:
            return None, False
        self._check_layer(layer, self.basis.depth)
        return self.basis.matrix(layer, strength, self.wide), self.basis.returns

    def no_weight_decay(self) -> set[str]:
        return set() if self.basis is None else {f"basis.{name}" for name, _ in self.basis.named_parameters()}

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the mean cosine of the angle between two positions over heads, frequencies and blocks, `(N, N)`.

        It is the score of two equal vectors whose channel pairs have equal length. A basis that changes lengths gives
        pairs other weights.
        """
        place = self._place(grid)
        kernels = []
        for layer in range(self._layers()):
            angles = self.angles(place, layer)[0]
            weights = None if self.basis is None else self.basis.weights(layer, angles.dtype)
            kernels.append(self._kernel(angles, weights))
        total = torch.stack(kernels).mean(0)
        return total if self.basis is None else total / total[0, 0]

    def _layers(self) -> int:
        return 1 if self.basis is None else self.basis.depth

    @staticmethod
    def _kernel(angles: Tensor, weights: Tensor | None) -> Tensor:
        # cos(a - b) = cos a cos b + sin a sin b, summed as a product of matrices.
        cos, sin = angles.cos(), angles.sin()
        if weights is not None:
            cos, sin = (each * weights.sqrt()[:, None] for each in (cos, sin))
        parts = torch.cat((cos, sin), dim=-1).transpose(0, 1).flatten(1)
        return parts @ parts.T / cos[:, 0].numel()

    def _turns(self, points: Tensor, factors: Tensor | None, vectors: Tensor) -> Tensor:
        """Return the scalar products of positions and wave vectors, the angles.

        Args:
            points: `(1 or B, N, 2)` coordinates.
            factors: of `_factors`, broadcastable to them.
            vectors: `(heads or 1, d/2, 2)` wave vectors.

        Returns:
            `(1 or B, heads or 1, N, d/2)`.
        """
        if factors is not None and self.extrapolate == "linear":
            points = points * factors
        row, column = points[:, None, :, :, None].unbind(-2)  # (1 or B, 1, N, 1) each
        if factors is not None and self.extrapolate == "ntk":
            powers = factors[:, None, :, None] ** slowness(vectors)[:, None, :, None]
            row, column = row * powers[..., 0], column * powers[..., 1]
        return row * vectors[:, None, :, 0] + column * vectors[:, None, :, 1]

    def _factors(self, sizes: Tensor) -> Tensor | None:
        """Return the size of the first grid over the `sizes` of others, for rows and columns; None for 1."""
        if self.extrapolate == "none":
            return None
        return torch.tensor(self.trained, dtype=sizes.dtype, device=sizes.device) / sizes

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        loaded = state_dict.get(f"{prefix}trained_grid")
        if self.extrapolate != "none" and isinstance(loaded, Tensor) and not loaded.is_meta:
            self.trained = Grid(*loaded.tolist())
            self._constants = Constants()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}"


class WaveRotary(Rotary):
    """Base class of rotary encoders with fixed wave vectors; subclasses implement `_vectors`.

    Args:
        dim: width D of the tokens; each head's part a multiple of 4.
        grid: (height, width) of the grid.
        heads: attention heads.
        temperature: the slowest pair turns about 1 / temperature a cell.
        refine: "image" moves patches by what the image shows; options as a dictionary or `ImageRefinement`.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
        layout: as for `Rotary`.
        extrapolate: as for `Rotary`.
        augment: as for `Rotary`.
        fuzzy: as for `Rotary`.
        basis: as for `Rotary`.
        depth: as for `Rotary`.
    """

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
        layout: str = "interleaved",
        extrapolate: str = "none",
        augment: Augment = None,
        fuzzy: float = 0.0,
        basis: str | None = None,
        depth: int | None = None,
    ):
        super().__init__(
            dim,
            grid,
            heads,
            layout=layout,
            extrapolate=extrapolate,
            augment=augment,
            fuzzy=fuzzy,
            basis=basis,
            depth=depth,
        )
        self.temperature = as_positive(temperature, "temperature")
        self._refine_by(refine, patch_size, channels)

    @abstractmethod
    def _vectors(self) -> Tensor:
        """Return the wave vectors in radians a cell, `(heads or 1, d/2, 2)` float64: rows first."""

    def _plain_angles(self, positions: Positions, layer: int) -> Tensor:
        """Return row and column times the wave vectors, `(1 or B, heads or 1, N, d/2)`."""
        if positions.moved is None:
            return self.per_patch("_angles", positions).transpose(1, 2)
        return self._moved_angles(positions).to(self.wide)

    def waves(self, positions: Positions, layer: int) -> Tensor:
        if self.basis is not None and self.basis.learns_angles:
            return super().waves(positions, layer)
        if positions.whole is not None:
            return self.constant("_waves", positions.whole)
        return waves(self._moved_angles(positions), self.layout).to(self.wide)  # rounded once, as constants are

    def _moved_angles(self, positions: Positions) -> Tensor:
        points, sizes = self._plane(positions)
        vectors = self.constant("_wave_vectors", self.grid, dtype=points.dtype).to(points.device)
        return self._turns(self._scaled(points, sizes), self._factors(sizes), vectors)

    def _scaled(self, points: Tensor, sizes: Tensor) -> Tensor:
        """Return the coordinates that the wave vectors are for."""
        return points

    def _wave_vectors(self, grid: Grid) -> Tensor:
        return self._vectors()

    def _grid_angles(self, grid: Grid) -> Tensor:
        points, sizes = Positions((grid,)).plane(torch.float64)
        return self._turns(self._scaled(points, sizes), self._factors(sizes), self._vectors())

    def _angles(self, grid: Grid) -> Tensor:
        return self._grid_angles(grid)[0].transpose(0, 1)  # cells first

    def _waves(self, grid: Grid) -> Tensor:
        return waves(self._grid_angles(grid), self.layout)
