"""A trainable projection of an additive encoder's vectors, so that it can imitate a table."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from loope.core.errors import require
from loope.core.grid import Grid, GridLike
from loope.encoders.base import PositionalEncoder
from loope.encoders.regression import ridge
from loope.encoders.resample import interpolate
from loope.positions import Positions, as_positions


class Projected(PositionalEncoder):
    """Another encoder's vectors times a matrix, plus a bias; `create_encoder(..., project=True)` makes one.

    The projection belongs to the grid it was made for. On other grids, an encoder that does not read the image sees
    coordinates scaled to that grid, so that the projection meets no vectors it does not know; where only cells have
    vectors, it interpolates between them.

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
        if self.reads_content:
            return self.encoder.embed(images, place)
        place = place.onto(self.made_for)
        if place.moved is not None and not self.encoder.continuous:
            return interpolate([self.encoder.static_vectors(self.made_for)], place)
        return self.encoder.embed(images, place)

    @torch.no_grad()
    def fit(self, table: Tensor) -> float:
        """Fit the projection to a table of the grid it was made for, by ridge regression in float64.

        The ridge is the one, among powers of ten, with the smallest error on cells left out one at a time.

        Args:
            table: `(N, D)`.

        Returns:
            The share of the table's variance that is explained.
        """
        vectors = self.encoder.static_vectors(self.made_for).double()
        weight, bias, explained = ridge(vectors, table.double())
        self.projection.weight.copy_(weight.T)
        self.projection.bias.copy_(bias)
        return explained

    def static_vectors(self, grid: GridLike | None = None) -> Tensor:
        projected: Tensor = self.projection(self.encoder.static_vectors(grid))
        return projected

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        vectors = nn.functional.normalize(self.static_vectors(grid).to(self.wide), dim=-1)
        return vectors @ vectors.T

    def no_weight_decay(self) -> set[str]:
        return {f"encoder.{name}" for name in self.encoder.no_weight_decay()}

    def _resample(self, grid: Grid) -> None:
        self.encoder.resize(grid)

    def extra_repr(self) -> str:
        return f"made_for={self.made_for}"
