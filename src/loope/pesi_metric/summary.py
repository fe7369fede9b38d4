"""All scores of a similarity of positions as plain numbers, for tables, files and the command line."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from loope.core.grid import GridLike
from loope.pesi_metric.functional import NEAR_ZERO, PesiScores, measure
from loope.pesi_metric.similarity_scores import nearness_correlation, translation_consistency


class Summary(NamedTuple):
    """The scores of `loope.PesiScores` and of `similarity_scores`."""

    m_u: float
    m_d: float
    m_d_ceiling: float
    m_d_share: float
    a_su: float
    a_su_bounded: float
    smallest_mean: float
    translation_consistency: float
    nearness_correlation: float

    @property
    def a_su_says_little(self) -> bool:
        """Return whether A_SU divides by a mean near zero."""
        return self.smallest_mean < NEAR_ZERO


def summarize(similarity: Tensor, grid: GridLike, directions: int = 60) -> Summary:
    """Compute all scores of an `(N, N)` similarity, without warnings; see `Summary.a_su_says_little`."""
    return summary_of(measure(similarity, grid, directions), similarity, grid)


def summary_of(scores: PesiScores, similarity: Tensor, grid: GridLike) -> Summary:
    """Return the summary of a similarity whose PESI scores are given."""
    return Summary(
        m_u=scores.m_u.item(),
        m_d=scores.m_d.item(),
        m_d_ceiling=scores.m_d_ceiling,
        m_d_share=scores.m_d_share.item(),
        a_su=scores.a_su.item(),
        a_su_bounded=scores.a_su_bounded.item(),
        smallest_mean=scores.smallest_mean.item(),
        translation_consistency=translation_consistency(similarity, grid).item(),
        nearness_correlation=nearness_correlation(similarity, grid).item(),
    )
