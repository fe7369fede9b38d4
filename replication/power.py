"""Intervals of differences, and the smallest effect that a comparison could have shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from scipy import optimize, stats

LEVEL, POWER = 0.05, 0.8


class Interval(NamedTuple):
    """A mean difference and the ends of its interval."""

    mean: float
    low: float
    high: float


def paired_interval(differences: Sequence[float], tests: int = 1) -> Interval:
    """Student's interval of the mean of paired differences, at 95 % together over so many tests (Bonferroni)."""
    mean = math.fsum(differences) / len(differences)
    limit = stats.t.ppf(1 - LEVEL / (2 * tests), len(differences) - 1)
    half = float(limit * stats.sem(differences))
    return Interval(mean, mean - half, mean + half)


def welch_interval(ones: Sequence[float], others: Sequence[float]) -> Interval:
    """Welch's 95 % interval of the difference of two means: variances may differ, seeds are not paired."""
    errors = [stats.sem(each) ** 2 for each in (ones, others)]
    mean = math.fsum(ones) / len(ones) - math.fsum(others) / len(others)
    total = sum(errors)
    if total == 0:
        return Interval(mean, mean, mean)
    parts = zip(errors, (ones, others), strict=True)
    freedom = total**2 / sum(error**2 / (len(each) - 1) for error, each in parts)  # Welch and Satterthwaite
    half = float(stats.t.ppf(1 - LEVEL / 2, freedom) * math.sqrt(total))
    return Interval(mean, mean - half, mean + half)


def chance_to_find(shift: float, seeds: int, level: float = LEVEL) -> float:
    """Power of a two-sided t-test of `seeds` differences whose true mean is `shift` standard errors from zero."""
    limit = stats.t.ppf(1 - level / 2, seeds - 1)
    # The square of a noncentral t follows a noncentral F, which SciPy also computes for one degree of freedom.
    return float(stats.ncf.sf(limit**2, 1, seeds - 1, shift**2))


@cache
def detectable_shift(seeds: int, tests: int = 1) -> float:
    """True mean, in standard errors, that is found with 80 % power."""
    return float(optimize.brentq(lambda shift: chance_to_find(shift, seeds, LEVEL / tests) - POWER, 1e-3, 1e3))


def detectable(half: float, seeds: int) -> float:
    """Smallest true difference that is found with 80 % power, given half of the 95 % interval; NaN for one seed."""
    if seeds < 2 or not half > 0:  # without a spread there is nothing to reckon with
        return math.nan
    return half / float(stats.t.ppf(1 - LEVEL / 2, seeds - 1)) * detectable_shift(seeds)


def detectable_correlation(count: int) -> float:
    """Smallest rank correlation over `count` pairs whose interval is above zero in 80 % of cases.

    By the interval's own approximation: Fisher's transformation with the variance of Bonett and Wright.
    """
    if count < 4:
        return math.nan
    wanted = stats.norm.ppf(1 - LEVEL / 2) + stats.norm.ppf(POWER)

    def missing(found: float) -> float:
        return math.atanh(found) - float(wanted) * math.sqrt((1 + found**2 / 2) / (count - 3))

    return float(optimize.brentq(missing, 0.0, 1 - 1e-9))
