"""Check embeddings and similarities, and convert them to the precision of the computation."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.core.serial import in_pieces
from loope.core.tensors import as_real

MOST_DIRECTIONS = 2**20  # limited by the sort key


def check_directions(directions: Any) -> int:
    """Read the number of directions.

    Raises:
        LoopeError: unless it is a whole number from 1 to about a million.
    """
    return as_size(directions, "directions", most=MOST_DIRECTIONS)


def unit_vectors(embedding: Any) -> tuple[Tensor, Grid]:
    """Normalize the vectors of an embedding.

    Args:
        embedding: `(h, w, D)` or `(B, h, w, D)` float.

    Returns:
        `(B, N, D)` float64 (B = 1 for one image) and the grid. In double precision for any input, so that equal and
        different similarities can be distinguished.

    Raises:
        LoopeError: for another shape or dtype, a single cell, or vectors that are zero or not finite.
    """
    value = as_real(embedding, "embedding", (3, 4), "(h, w, D) or (B, h, w, D)")
    grid = _several_cells(as_grid(tuple(value.shape[-3:-1]), "embedding"))
    require(value.numel() > 0, f"`embedding` must not be empty, got shape {tuple(value.shape)}.")
    rows = value.reshape(-1, value.shape[-1])
    unit = torch.empty_like(rows, dtype=torch.float64)
    for made, given in in_pieces(unit, rows):
        vectors = given.double()
        norm = vectors.norm(dim=-1, keepdim=True)
        if not bool(((norm > 1e-150) & (norm < 1e150)).all()):
            _require_directions(rows)
            # Squares of very small or large numbers underflow or overflow.
            vectors = vectors / vectors.abs().amax(-1, keepdim=True)
            norm = vectors.norm(dim=-1, keepdim=True)
        made.copy_(vectors / norm)
    return unit.view(-1, grid.size, value.shape[-1]), grid


def _require_directions(vectors: Tensor) -> None:
    """Check that all `(n, D)` vectors are finite and not zero."""
    largest = vectors.abs().amax(-1)
    require(
        bool(largest.isfinite().all()),
        "`embedding` must be finite, got NaN or infinite values; look at where it is from.",
    )
    zeros = int((largest == 0).sum())
    require(
        zeros == 0,
        f"`embedding` has {zeros} zero vectors, which have no direction and no cosine; leave such cells out, or use "
        "pesi_from_similarity with a similarity of your own.",
    )


class Similarities(NamedTuple):
    """Similarities of several images, and their magnitude.

    Attributes:
        matrices: `(B, N, N)` in the original dtype.
        exponent: `(B,)` int, the power of two above the largest absolute value.
        largest: `(B,)` float64, that value over this power of two: 0.5 to 1, or 0 if all are zero.
    """

    matrices: Tensor
    exponent: Tensor
    largest: Tensor

    def rows(self, image: int, centres: slice) -> Tensor:
        """Return rows `(C, N)` float64 divided by the power of two: exact, and squares stay in range."""
        return self.matrices[image, centres].double() * 2.0 ** -self.exponent[image].double()


def similarities(similarity: Any, grid: GridLike) -> tuple[Similarities, Grid]:
    """Read the similarities of one image or several.

    Args:
        similarity: `(N, N)` or `(B, N, N)` float; row c is the similarity of all cells to cell c.
        grid: (height, width), N cells.

    Raises:
        LoopeError: for another shape or dtype, a single cell, or values that are not finite.
    """
    value = as_real(similarity, "similarity", (2, 3), "(N, N) or (B, N, N)")
    cells = _several_cells(as_grid(grid))
    require(
        tuple(value.shape[-2:]) == (cells.size, cells.size) and value.numel() > 0,
        f"`similarity` must be {cells.size} x {cells.size} for a grid of {cells}, got shape {tuple(value.shape)}; pass "
        "the grid whose cells it compares, row-major.",
    )
    matrices = value.reshape(-1, cells.size, cells.size)
    largest = torch.stack([_largest(matrix) for matrix in matrices])
    require(
        bool(largest.isfinite().all()),
        "`similarity` must be finite, got NaN or infinite values; look at where it is from.",
    )
    mantissa, exponent = torch.frexp(largest)
    return Similarities(matrices, exponent.clamp(min=-1000), mantissa), cells


def _largest(matrix: Tensor) -> Tensor:
    """Return the largest absolute value, `()` float64; NaN or infinite if any value is."""
    # Minimum and maximum need no second matrix in memory, as absolute values would.
    ends = [torch.stack(torch.aminmax(rows)) for (rows,) in in_pieces(matrix)]
    return torch.stack(ends).double().abs().amax()


def _several_cells(grid: Grid) -> Grid:
    require(grid.size > 1, f"A grid of {grid} has no distances to compare; at least two cells are needed.")
    return grid
