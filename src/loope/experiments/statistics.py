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
    if count < 2:
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


def paired(ones: Mapping[int, float], others: Mapping[int, float]) -> Mean:
    """Mean of the differences over the seeds that both have, with its 95 % interval.

    Seeds pair runs: they share the order of batches. The interval leaves out zero exactly where the paired t-test has
    p < 0.05.

    Examples:
        >>> found = paired({0: 0.93, 1: 0.95, 2: 0.94}, {0: 0.90, 1: 0.91, 2: 0.92, 3: 0.99})
        >>> round(found.mean, 3), round(found.half, 3), found.n
        (0.03, 0.025, 3)
    """
    seeds = sorted(ones.keys() & others.keys())
    require(bool(seeds), "No seed has both runs: their difference cannot be told.")
    return over_seeds([ones[seed] - others[seed] for seed in seeds])
