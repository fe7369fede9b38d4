"""Means over seeds with their intervals, paired tests and rank correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pandas import Series
from scipy import stats

from loope.core.errors import require


class Mean(NamedTuple):
    """Mean over `n` seeds and half the width of its 95 % interval; NaN for one seed."""

    mean: float
    half: float
    n: int


def over_seeds(values: Sequence[float]) -> Mean:
    """Return the mean and its 95 % interval (Student's t).

    Examples:
        >>> found = over_seeds([0.90, 0.92, 0.94])
        >>> round(found.mean, 3), round(found.half, 3), found.n
        (0.92, 0.05, 3)
    """
    count, mean = len(values), math.fsum(values) / len(values)
    if count < 2 or not math.isfinite(mean):
        return Mean(mean, math.nan, count)
    return Mean(mean, float(stats.t.ppf(0.975, count - 1) * stats.sem(values)), count)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Spearman's correlation with average ranks; NaN if either side is constant.

    Examples:
        >>> round(rank_correlation([1, 2, 3, 4, 5], [85.6, 90.9, 93.1, 88.8, 93.4]), 3)  # M_U, distance
        0.7
    """
    if len(set(x)) < 2 or len(set(y)) < 2:
        return math.nan
    return float(stats.spearmanr(x, y).statistic)


class Difference(NamedTuple):
    """Mean difference over `n` seeds, half its 95 % interval, and p of the paired t-test; NaN for one seed."""

    mean: float
    half: float
    n: int
    p: float


def paired(ones: Series[float], others: Series[float]) -> Difference:
    """Compare two encoders over the seeds that both have; runs of one seed share the order of batches.

    Examples:
        >>> found = paired(Series([0.93, 0.95, 0.94]), Series([0.90, 0.91, 0.92, 0.99]))
        >>> round(found.mean, 3), round(found.half, 3), found.n, round(found.p, 3)
        (0.03, 0.025, 3, 0.035)
    """
    ones, others = ones.align(others, join="inner")
    differences = ones - others
    require(len(differences) > 0, "No seed has both runs: there is no difference to test.")
    found = over_seeds(differences)
    if math.isnan(found.half):
        return Difference(*found, math.nan)
    error = float(stats.sem(differences))
    # Not `ttest_rel`, which warns where differences are nearly equal.
    p = 2 * stats.t.sf(abs(found.mean / error), found.n - 1) if error else found.mean == 0
    return Difference(*found, float(p))


def holm(chances: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests for their number (Holm, 1979).

    Examples:
        >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    raised, most = [0.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(chances) - rank) * chances[place]))
        raised[place] = most
    return raised


def rank_interval(correlation: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of Spearman's correlation over `count` pairs (Bonett and Wright, 2000).

    Fisher's transformation with the variance `(1 + r^2 / 2) / (n - 3)`; fewer than four pairs say nothing.

    Examples:
        >>> [round(end, 2) for end in rank_interval(0.7, 5)]  # what the paper's five rows allow
        [-0.59, 0.98]
    """
    if count < 4:
        return -1.0, 1.0
    # At 1 the formula leaves no doubt, which so few pairs cannot: it is taken as if two neighbours were exchanged.
    most = 1 - 12 / (count * (count**2 - 1))
    correlation = max(-most, min(most, correlation))
    half = stats.norm.ppf(0.975) * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    middle = math.atanh(correlation)
    return math.tanh(middle - half), math.tanh(middle + half)
