"""PESI, Positional Embeddings Structural Integrity, as pure functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from loope.core.errors import LoopeWarning
from loope.core.grid import GridLike, as_grid
from loope.core.limits import require_comparable
from loope.core.ranks import dense_ranks, levels, round_off
from loope.core.serial import gram
from loope.pesi_metric import components
from loope.pesi_metric.geometry import SMALL, Geometry, geometry
from loope.pesi_metric.validation import check_directions, similarities, unit_vectors

NEAR_ZERO = 0.01  # of the largest similarity; below it, std / mean is not meaningful

# Maps the index of an image and some centres to their rows of similarity, `(C, N)` float64.
Rows = Callable[[int, slice], Tensor]


class Maps(NamedTuple):
    """Scores of single centres: `(h, w)`, or `(B, h, w)` for a batch, float64. Their mean is the score."""

    m_u: Tensor
    m_d: Tensor
    a_su: Tensor
    a_su_bounded: Tensor


@dataclass(frozen=True)
class PesiScores:
    """The PESI scores of an embedding; tensors are float64, `()` for one image and `(B,)` for a batch.

    Attributes:
        m_u: undirected monotonicity, 0 to 2: whether mean similarity decreases from ring to ring. 2: for every centre;
            1: no relation.
        m_d: directed monotonicity, 0 to `m_d_ceiling`: whether similarity decreases with distance in each direction.
        a_su: undirected asymmetry, std / mean of similarity on a ring. 0: similarity depends on distance alone.
        a_su_bounded: the same with std / range of the centre's similarities: 0 to 1/2, even if means are near zero.
        m_d_ceiling: the largest possible M_D on this grid with this number of directions. It is below 2 because buckets
            with fewer than two cells count 0.
        smallest_mean: the smallest |mean| of a ring with a spread, as a share of the largest |similarity|; infinite if
            there is none. Below 0.01, that ring dominates A_SU.
        maps: the scores per centre.
    """

    m_u: Tensor
    m_d: Tensor
    a_su: Tensor
    a_su_bounded: Tensor
    m_d_ceiling: float
    smallest_mean: Tensor
    maps: Maps

    @property
    def m_d_share(self) -> Tensor:
        """Return M_D / ceiling: at most 1 for every grid and number of directions."""
        return self.m_d / self.m_d_ceiling


def pesi(embedding: Tensor, directions: int = 60) -> PesiScores:
    """Measure an embedding by the cosine similarity of its vectors.

    Args:
        embedding: `(h, w, D)` or `(B, h, w, D)` float of any precision; computed in float64.
        directions: number of direction buckets for M_D.

    Raises:
        LoopeError: for another shape or dtype, a single cell, or vectors that are zero or not finite.

    Examples:
        >>> import loope
        >>> vectors = loope.create_encoder("gilbert", dim=768, grid=14)(None)
        >>> scores = pesi(vectors.view(14, 14, 768))
        >>> f"{scores.m_u:.4f} {scores.m_d:.4f} {scores.a_su:.4f} {scores.m_d_ceiling:.4f}"
        '1.9674 1.2900 0.0939 1.5321'
    """
    vectors, grid = unit_vectors(embedding)
    place = geometry(grid, check_directions(directions), vectors.device)
    return _warned(_scores(_cosines(vectors), place, vectors.new_ones(len(vectors)), embedding.shape[:-3], levels))


def pesi_from_similarity(similarity: Tensor, grid: GridLike, directions: int = 60) -> PesiScores:
    """Measure any similarity of positions, such as `loope.encoder_similarity` of rotary and bias encoders.

    Args:
        similarity: `(N, N)` or `(B, N, N)` float; row c is the similarity of all cells to cell c.
        grid: (height, width), N cells.
        directions: number of direction buckets for M_D.

    Raises:
        LoopeError: for another shape or dtype, a single cell, or values that are not finite.

    Examples:
        >>> import loope
        >>> rope = loope.create_encoder("rope_axial", dim=768, grid=14, heads=12)
        >>> f"{pesi_from_similarity(loope.encoder_similarity(rope), 14).m_u:.4f}"
        '1.9975'
    """
    return _warned(measure(similarity, grid, directions))


def measure(similarity: Tensor, grid: GridLike, directions: int = 60) -> PesiScores:
    """Compute `pesi_from_similarity` without its warning, for callers that check `smallest_mean`; thread-safe."""
    given, cells = similarities(similarity, grid)
    place = geometry(cells, check_directions(directions), similarity.device)
    return _scores(given.rows, place, given.largest, similarity.shape[:-2], dense_ranks)


def undirected_monotonicity(similarity: Tensor, grid: GridLike) -> Tensor:
    """Return M_U of each centre, `(h, w)` or `(B, h, w)`, from `(N, N)` or `(B, N, N)` similarity."""
    return measure(similarity, grid, 1).maps.m_u


def directed_monotonicity(similarity: Tensor, grid: GridLike, directions: int = 60) -> Tensor:
    """Return M_D of each centre, `(h, w)` or `(B, h, w)`, from `(N, N)` or `(B, N, N)` similarity."""
    return measure(similarity, grid, directions).maps.m_d


def undirected_asymmetry(similarity: Tensor, grid: GridLike) -> Tensor:
    """Return A_SU of each centre, `(h, w)` or `(B, h, w)`, from `(N, N)` or `(B, N, N)` similarity."""
    return measure(similarity, grid, 1).maps.a_su


def m_d_ceiling(grid: GridLike, directions: int = 60) -> float:
    """Return the largest M_D that any embedding of this grid can have.

    Examples:
        >>> round(m_d_ceiling((14, 14), 60), 4), m_d_ceiling((14, 14), 1)
        (1.5321, 2.0)
    """
    return components.ceiling(geometry(as_grid(grid), check_directions(directions), torch.get_default_device()))


def cosine_similarity(embedding: Tensor) -> Tensor:
    """Return E of an `(h, w, D)` or `(B, h, w, D)` embedding, `(N, N)` or `(B, N, N)` float64.

    Rounded to multiples of 2^-40, so that similarities that are equal in exact arithmetic have equal ranks.

    Raises:
        LoopeError: for more cells than `loope.core.limits.MOST_CELLS_COMPARED`; `pesi` does not store E.
    """
    vectors, grid = unit_vectors(embedding)
    require_comparable(grid)
    rows = _cosines(vectors)
    matrices = vectors.new_empty(len(vectors), grid.size, grid.size)
    for image, matrix in enumerate(matrices):
        for centres in geometry(grid, 1, vectors.device).chunks():
            matrix[centres] = round_off(rows(image, centres))
    return matrices.view(*embedding.shape[:-3], grid.size, grid.size)


def _cosines(vectors: Tensor) -> Rows:
    """Return the rows of E of `(B, N, D)` unit vectors."""
    if vectors.is_cpu and vectors.shape[1] <= SMALL:
        whole = lru_cache(maxsize=1)(lambda image: gram(vectors[image]))
        return lambda image, centres: whole(image)[centres]
    # A few centres at a time, so that E is never in memory as a whole.
    return lambda image, centres: vectors[image, centres] @ vectors[image].T


def _scores(
    rows: Rows,
    place: Geometry,
    largest: Tensor,
    batch: torch.Size,
    order: Callable[[Tensor], Tensor],
) -> PesiScores:
    """Compute all components for every centre of every image.

    Args:
        rows: the similarities, of about 1.
        place: the geometry.
        largest: `(B,)`, the largest absolute similarity of each image.
        batch: `(B,)`, or `()` for one image.
        order: maps similarities to integers in the same order.
    """

    def centre_scores(image: int, centres: slice) -> Tensor:
        similarity = rows(image, centres)
        around = components.rings(similarity, place, centres)
        scores = (
            components.undirected(around),
            components.directed(order(similarity), place, centres),
            components.asymmetry(around),
            components.bounded_asymmetry(around, similarity),
            torch.where(around.std > 0, around.mean.abs(), torch.inf).amin(-1),
        )
        return torch.stack(scores, dim=-1)

    images = [place.over_centres(5, partial(centre_scores, image)) for image in range(len(largest))]
    *scores, means = torch.stack(images).unbind(-1)  # (B, N) each
    maps = Maps(*(score.view(*batch, *place.grid) for score in scores))
    smallest = means.amin(-1) / torch.where(largest > 0, largest, 1)
    m_u, m_d, a_su, a_su_bounded = (score.mean((-2, -1)) for score in maps)
    return PesiScores(m_u, m_d, a_su, a_su_bounded, components.ceiling(place), smallest.view(batch), maps)


def _warned(scores: PesiScores) -> PesiScores:
    if bool((scores.smallest_mean < NEAR_ZERO).any()):
        warnings.warn(
            f"A_SU divides by the mean similarity of each ring, and one is {scores.smallest_mean.min():.1e} of the "
            "largest similarity: it says little here. `a_su_bounded` does not divide by it.",
            LoopeWarning,
            stacklevel=3,
        )
    return scores
