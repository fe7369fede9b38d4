"""Factorized positions: a learned vector for the row plus one for the column."""

import torch
from torch import Tensor, nn

from loope.core.errors import one_of
from loope.core.grid import Grid, GridLike, as_positive
from loope.encoders.base import PositionalEncoder, register_encoder
from loope.positions import Positions, as_positions

COORDINATES = ("fractional", "absolute")


@register_encoder("factorized")
class Factorized(PositionalEncoder):
    """A trained vector for each row plus one for each column.

    NaViT's fractional positions are shares of the image's side; as in timm, they are read from tables by linear
    interpolation between cell centres.

    Args:
        dim: width D of the tokens.
        grid: (height, width): the lengths of the tables.
        coordinates: "fractional" stretches the tables over every image, whatever its grid; "absolute" counts cells from
            the top left corner, and beyond the tables' end repeats their last vector.
        std: standard deviation of the initial values.
        fuzzy: while training, each patch moves by up to this many cells along each axis (ViTAR has 0.5).
    """

    paper = "Dehghani et al., 2023 (NaViT)"
    reads_content = False
    continuous = True

    def __init__(
        self, dim: int, grid: GridLike, coordinates: str = "fractional", std: float = 0.02, fuzzy: float = 0.0
    ):
        super().__init__(dim, grid)
        self._augment_by(fuzzy=fuzzy)
        one_of("coordinates", coordinates, COORDINATES)
        self.coordinates = coordinates
        self.rows, self.columns = (nn.Parameter(torch.empty(length, self.dim)) for length in self.grid)
        for table in (self.rows, self.columns):
            nn.init.normal_(table, std=as_positive(std, "std"))

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        """Return the vectors, `(1 or B, N, D)`; between cells they are interpolated."""
        return self._static(self.refine_positions(images, as_positions(positions)))

    def _static(self, place: Positions) -> Tensor:
        if place.moved is not None:
            points, sizes = self._plane(place)
            parts = zip((self.rows, self.columns), points.unbind(-1), sizes.unbind(-1), strict=True)
            row, column = (self._read(table, self._place_in(len(table), at, size)) for table, at, size in parts)
            return row + column
        whole = [self._whole(grid) for grid in place.kinds]
        return whole[0][None] if place.whole is not None else place.pick(whole)

    @torch.no_grad()
    def fit(self, table: Tensor) -> float:
        """Fit both tables by least squares, which is the means of rows and columns."""
        values = table.detach().double().view(*self.grid, -1)
        mean = values.mean((0, 1))
        rows, columns = values.mean(1) - mean / 2, values.mean(0) - mean / 2
        self.rows.copy_(rows)
        self.columns.copy_(columns)
        left = (values - rows[:, None] - columns).square().sum()
        total = (values - mean).square().sum().clamp(min=torch.finfo(values.dtype).tiny)
        return float(1 - left / total)

    def no_weight_decay(self) -> set[str]:
        return {"rows", "columns"}

    def _whole(self, grid: Grid) -> Tensor:
        """Return the vectors of all cells of a grid, `(N, D)`."""
        parts = zip((self.rows, self.columns), grid, strict=True)
        row, column = (self._read(table, self.constant("_centres", Grid(len(table), n))) for table, n in parts)
        return (row[:, None] + column).flatten(0, 1)

    def _centres(self, lengths: Grid) -> Tensor:
        """Return where the cells of an axis are in a table; `lengths` is those of table and axis."""
        table, axis = lengths
        return self._place_in(table, torch.arange(axis, dtype=torch.float64), torch.tensor(axis, dtype=torch.float64))

    def _place_in(self, length: int, at: Tensor, size: Tensor) -> Tensor:
        """Return the place in a table of this length of coordinates `at` on axes of `size` cells."""
        place = at if self.coordinates == "absolute" else (at + 0.5) * (length / size) - 0.5
        return place.clamp(0, length - 1)

    def _read(self, table: Tensor, place: Tensor) -> Tensor:
        """Read a table `(L, D)` at fractional places, `(...)` to `(..., D)`."""
        low = place.floor().clamp(max=max(len(table) - 2, 0)).long()
        weight = (place - low).to(self.wide)[..., None]
        wide = table.to(self.wide)
        return torch.lerp(wide[low], wide[(low + 1).clamp(max=len(table) - 1)], weight).to(self.dtype)

    def _resample(self, grid: Grid) -> None:
        if self.coordinates == "absolute":
            return  # cells keep their vectors
        for name, length in zip(("rows", "columns"), grid, strict=True):
            table = getattr(self, name)
            if len(table) != length:
                moved = self._read(table, self.constant("_centres", Grid(len(table), length)))
                setattr(self, name, nn.Parameter(moved, table.requires_grad))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, coordinates={self.coordinates!r}"
