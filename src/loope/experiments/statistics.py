"""Means over seeds, with the interval that so few of them allow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from loope.core.errors import require

# 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom; beyond the last the normal distribution's is close.
T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip


class Mean(NamedTuple):
    """A mean over `n` seeds and half the width of its 95 % interval, NaN for one seed."""

    mean: float
    half: float
    n: int


def over_seeds(values: Sequence[float]) -> Mean:
    """Mean and 95 % interval (Student's t).

    Examples:
        >>> found = over_seeds([0.90, 0.92, 0.94])
        >>> round(found.mean, 3), round(found.half, 3), found.n
        (0.92, 0.05, 3)
    """
    count = len(values)
    mean = statistics.fmean(values)
    if count < 2 or not math.isfinite(mean):
        return Mean(mean, math.nan, count)
    quantile = T975[count - 2] if count - 2 < len(T975) else statistics.NormalDist().inv_cdf(0.975)
    return Mean(mean, quantile * statistics.stdev(values) / math.sqrt(count), count)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation with average ranks; NaN if one of the two does not vary.

    Examples:
        >>> round(rank_correlation([1, 2, 3, 4, 5], [85.6, 90.9, 93.1, 88.8, 93.4]), 3)  # M_U, distance
        0.7
    """
    import torch

    from loope.core.ranks import spearman

    return spearman(torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)).item()


class Difference(NamedTuple):
    """A mean difference over `n` seeds, half its 95 % interval, and the p of the paired t-test; NaN for one seed."""

    mean: float
    half: float
    n: int
    p: float


def paired(ones: Mapping[int, float], others: Mapping[int, float]) -> Difference:
    """Mean of the differences over the seeds that both have, with its 95 % interval and p.

    Seeds pair runs: they share the order of batches.

    Examples:
        >>> found = paired({0: 0.93, 1: 0.95, 2: 0.94}, {0: 0.90, 1: 0.91, 2: 0.92, 3: 0.99})
        >>> round(found.mean, 3), round(found.half, 3), found.n, round(found.p, 3)
        (0.03, 0.025, 3, 0.035)
    """
    seeds = sorted(ones.keys() & others.keys())
    require(bool(seeds), "No seed has both runs: their difference cannot be told.")
    differences = [ones[seed] - others[seed] for seed in seeds]
    found = over_seeds(differences)
    if math.isnan(found.half):
        return Difference(*found, math.nan)
    error = statistics.stdev(differences) / math.sqrt(found.n)
    return Difference(*found, two_sided(found.mean / error, found.n - 1) if error else float(found.mean == 0))


def two_sided(t: float, freedom: int) -> float:
    """The probability that Student's t with so many degrees of freedom lies at least as far from 0.

    The closed form for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).

    Examples:
        >>> round(two_sided(2.776, 4), 3)
        0.05
    """
    angle = math.atan2(abs(t), math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (power - 1) / power
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return max(0.0, 1 - inside)


def holm(chances: Sequence[float]) -> list[float]:
    """The p of several tests, each raised so that the chance of any false alarm stays what it says (Holm, 1979).

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
    """The 95 % interval of Spearman's correlation over `count` pairs (Bonett and Wright, 2000).

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
    half = statistics.NormalDist().inv_cdf(0.975) * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    middle = math.atanh(correlation)
    return math.tanh(middle - half), math.tanh(middle + half)
