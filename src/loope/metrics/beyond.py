"""Beyond the paper: two more questions to a similarity of positions."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from loope.core.grid import GridLike
from loope.core.ranks import spearman
from loope.metrics.check import similarities
from loope.metrics.geometry import Geometry, geometry


def translation_consistency(similarity: Tensor, grid: GridLike) -> Tensor:
    """How much E depends on the offset of two cells alone: the share of its variance that the offset explains.

    1: E(a, b) is a function of b - a, the same all over the grid, as for axial rotary or a relative bias. Near 0: what
    is alike in one corner is not in another. It is eta squared of a one-way analysis of variance over all pairs of
    different cells (a cell is alike to itself under every encoder), with one group for each offset. A constant E has
    nothing to explain and scores 1.

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
    """Eta squared: the spread between offsets over the whole spread, in two passes."""
    cells, itself = place.grid.size, place.offsets // 2
    some = rows(slice(0, 1))[0, 1]  # counted from any one value, a constant E is zero, and not nearly zero

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
    """Spearman's correlation of similarity and nearness (minus the distance) over all pairs of different cells.

    1: of any two pairs, anywhere on the grid, the closer one is the more alike. M_U and M_D compare cells as seen from
    one centre; this one also compares across centres, in one number without rings, buckets or a ceiling.

    Args:
        similarity: `(N, N)` or `(B, N, N)` float.
        grid: (height, width), N cells.

    Returns:
        `()` or `(B,)` float64 from -1 to 1; 0 if all pairs are equally alike, or equally far.
    """
    given, cells = similarities(similarity, grid)
    place = geometry(cells, 1, similarity.device)
    nearness = torch.cat([-place.squared_distance(centres) for centres in place.chunks()])

    def correlation(image: int) -> Tensor:
        alike = torch.cat([given.rows(image, centres) for centres in place.chunks()])
        return spearman(_off_diagonal(alike), _off_diagonal(nearness)).nan_to_num(0).to(similarity.device)

    return torch.stack([correlation(image) for image in range(len(given.largest))]).view(similarity.shape[:-2])


def _off_diagonal(matrix: Tensor) -> Tensor:
    """`(N * (N - 1),)`, on the CPU: the entries of an `(N, N)` matrix that are not on its diagonal."""
    size = len(matrix)
    values = matrix.cpu().numpy().ravel()[1:].reshape(size - 1, size + 1)  # now the diagonal is the last column
    return torch.from_numpy(values[:, :-1].ravel())
