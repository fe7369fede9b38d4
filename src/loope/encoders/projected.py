"""A trainable projection of an additive encoder's vectors, so that it can imitate a table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import require
from loope.core.grid import Grid
from loope.encoders.base import PositionalEncoder
from loope.encoders.regression import ridge
from loope.encoders.resample import corners, interpolate
from loope.positions import Positions, as_positions


class Projected(PositionalEncoder):
    """Another encoder's vectors times a matrix, plus a bias; `create_encoder(..., project=True)` makes one.

    The projection belongs to the grid it was made for. On other grids, the encoder sees coordinates scaled to that
    grid, so that the projection meets no vectors it does not know; where only cells have vectors, it interpolates.

    Args:
        encoder: an additive encoder.
    """

    def __init__(self, encoder: PositionalEncoder):
        require(
            encoder.hooks() == ("embed",),
            f"`project` is for additive encoders, whose vectors can be projected; {encoder.name!r} is none.",
        )
        super().__init__(encoder.dim, encoder.grid)
        self.name = encoder.name  # type: ignore[misc]
        self.encoder = encoder
        self.made_for = encoder.grid
        self.reads_content = encoder.reads_content
        self.prefix = encoder.prefix
        self.projection = nn.Linear(self.dim, self.dim)
        with torch.no_grad():  # starts as the encoder itself
            self.projection.weight.copy_(torch.eye(self.dim))
            self.projection.bias.zero_()

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        projected: Tensor = self.projection(self._vectors(images, as_positions(positions)))
        return projected

    def _vectors(self, images: Tensor | None, place: Positions) -> Tensor:
        if self.encoder.reads_content and hasattr(self.encoder, "refined_index"):
            return self._refined_on_a_curve(self.encoder, images, place)
        return self._static_vectors(self.encoder.refine_positions(images, place))

    def _refined_on_a_curve(self, encoder: Any, images: Tensor | None, place: Positions) -> Tensor:
        """Return the vectors of an encoder that moves patches along a curve: on other grids, along the known one."""
        there = place.onto(self.made_for)
        if there is place:
            same: Tensor = encoder.embed(images, place)
            return same
        offsets = encoder.offsets(images, place)
        total: Tensor = offsets.new_zeros(())
        for weight, cells in corners(there):
            index = encoder.per_patch("_index", cells)
            total = total + weight.to(index.dtype) * encoder._sinusoids(index + offsets.to(index.dtype), cells)
        return total.to(self.dtype)

    def _static_vectors(self, place: Positions) -> Tensor:
        """Return the encoder's vectors on the grid that the projection was made for."""
        place = place.onto(self.made_for)
        if place.moved is not None and not self.encoder.continuous:
            return interpolate([self.encoder._static(Positions((self.made_for,)))[0]], place)
        return self.encoder._static(place)

    def _static(self, positions: Positions) -> Tensor:
        projected: Tensor = self.projection(self._static_vectors(positions))
        return projected

    @torch.no_grad()
    def fit(self, table: Tensor) -> float:
        """Fit the projection to a table of the grid it was made for, by ridge regression in float64."""
        vectors = self.encoder._static(Positions((self.made_for,)))[0].double()
        solution = ridge(vectors, table.to(vectors))
        self.projection.weight.copy_(solution.weight.T)
        self.projection.bias.copy_(solution.bias)
        return float(solution.explained)

    def no_weight_decay(self) -> set[str]:
        return {f"encoder.{name}" for name in self.encoder.no_weight_decay()}

    def _resample(self, grid: Grid) -> None:
        self.encoder.resize(grid)

    def extra_repr(self) -> str:
        return f"made_for={self.made_for}"
