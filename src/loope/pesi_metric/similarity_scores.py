"""Two more scores of a similarity of positions, which are not in the paper."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from loope.core.grid import GridLike
from loope.core.ranks import spearman
from loope.pesi_metric.geometry import Geometry, geometry
from loope.pesi_metric.validation import similarities


def translation_consistency(similarity: Tensor, grid: GridLike) -> Tensor:
    """Return the share of the variance of E that the offset of two cells explains.

    1: E(a, b) is a function of b - a, the same everywhere on the grid, as for axial rotary or a relative bias. Near 0:
    the similarity of an offset varies over the grid. It is eta squared of a one-way analysis of variance over all pairs
    of different cells, with one group per offset. A constant E scores 1.

    Args:
        similarity: `(N, N)` or `(B, N, N)` float.
        grid: (height, width), N cells.

    Returns:
        `()` or `(B,)` float64 from 0 to 1.

    Examples:
        >>> import loope
        >>> rope = loope.create_encoder("rope_axial", dim=64, grid=7, heads=1)
        >>> round(translation_consistency(loope.encoder_similarity(rope), 7).item(), 6)
        1.0
    """
    given, cells = similarities(similarity, grid)
    place = geometry(cells, 1, similarity.device)
    shares = [_explained(partial(given.rows, image), place) for image in range(len(given.largest))]
    return torch.stack(shares).view(similarity.shape[:-2])


def _explained(rows: Callable[[slice], Tensor], place: Geometry) -> Tensor:
    """Return eta squared, the variance between offsets over the total variance, in two passes."""
    cells, itself = place.grid.size, place.offsets // 2
    some = rows(slice(0, 1))[0, 1]  # relative to any one value, a constant E is exactly zero

    def different(centres: slice, origin: Tensor) -> tuple[Tensor, Tensor]:
        offset = place.offset(centres).flatten()
        return offset, torch.where(offset == itself, 0, rows(centres).flatten() - origin)

    mean = sum(different(centres, some)[1].sum() for centres in place.chunks()) / (cells * (cells - 1)) + some
    total, sums, counts = torch.zeros_like(some), *some.new_zeros(2, place.offsets)
    for centres in place.chunks():
        offset, deviation = different(centres, mean)
        sums.index_add_(0, offset, deviation)
        counts.index_add_(0, offset, torch.ones_like(deviation))
        total += deviation.square().sum()
    return torch.where(total > 0, (sums.square() / counts).sum() / total, 1)


def nearness_correlation(similarity: Tensor, grid: GridLike) -> Tensor:
    """Return Spearman's correlation of similarity and nearness (minus the distance) over all pairs of different cells.

    1: of any two pairs, anywhere on the grid, the closer one is more similar. Unlike M_U and M_D, it also compares
    pairs with different centres, and needs no rings, buckets or ceiling.

    Args:
        similarity: `(N, N)` or `(B, N, N)` float.
        grid: (height, width), N cells.

    Returns:
        `()` or `(B,)` float64 from -1 to 1; 0 if all pairs are equally similar, or equally far.
    """
    given, cells = similarities(similarity, grid)
    place = geometry(cells, 1, similarity.device)
    nearness = torch.cat([-place.squared_distance(centres) for centres in place.chunks()])

    def correlation(image: int) -> Tensor:
        alike = torch.cat([given.rows(image, centres) for centres in place.chunks()])
        return spearman(_off_diagonal(alike), _off_diagonal(nearness)).nan_to_num(0).to(similarity.device)

    return torch.stack([correlation(image) for image in range(len(given.largest))]).view(similarity.shape[:-2])


def _off_diagonal(matrix: Tensor) -> Tensor:
    """Return the off-diagonal entries of an `(N, N)` matrix, `(N * (N - 1),)` on the CPU."""
    size = len(matrix)
    values = matrix.cpu().numpy().ravel()[1:].reshape(size - 1, size + 1)  # now the diagonal is the last column
    return torch.from_numpy(values[:, :-1].ravel())
