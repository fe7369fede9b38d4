"""Intervals and power, against SciPy, a simulation and a published number."""

import math

import numpy as np
import pytest
from scipy import stats

from loope.lab.experiments.statistics import over_seeds, rank_correlation, rank_interval
from replication import power

ONES, OTHERS = [93.1, 95.2, 94.4, 96.0, 93.7], [90.2, 93.3, 95.1, 92.4, 91.0]


@pytest.mark.parametrize("tests", [1, 30])
def test_a_paired_interval_is_that_of_scipy(tests):
    expected = stats.ttest_rel(ONES, OTHERS).confidence_interval(1 - 0.05 / tests)
    found = power.paired_interval([one - other for one, other in zip(ONES, OTHERS, strict=True)], tests)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(np.mean(ONES) - np.mean(OTHERS))


def test_welchs_interval_is_that_of_scipy():
    expected = stats.ttest_ind(ONES, OTHERS[:3], equal_var=False).confidence_interval(0.95)
    found = power.welch_interval(ONES, OTHERS[:3])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert power.welch_interval([2.0, 2.0], [1.0, 1.0]) == (1.0, 1.0, 1.0)


def test_the_power_of_cohens_exercise():
    """Cohen (1988), exercise 2.5: 60 pairs, an effect of 0.2, level 0.10; R's `pwr` gives 0.4555818."""
    assert power.chance_to_find(0.2 * math.sqrt(60), 60, 0.10) == pytest.approx(0.4555818, abs=1e-7)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_a_detectable_difference_is_found_in_four_of_five_experiments(seeds):
    shift = power.detectable_shift(seeds)
    drawn = np.random.default_rng(0).normal(loc=shift / math.sqrt(seeds), size=(100_000, seeds))
    p = stats.ttest_1samp(drawn, 0.0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.005)


def test_a_detectable_difference_is_in_the_unit_of_the_interval():
    found = over_seeds(ONES)
    expected = power.detectable_shift(5) * float(stats.sem(ONES))
    assert power.detectable(found.half, 5) == pytest.approx(expected)
    assert math.isnan(power.detectable(math.nan, 1))
    assert math.isnan(power.detectable(0.0, 5))
    assert power.detectable_shift(5, tests=30) > 2 * power.detectable_shift(5)


def test_a_detectable_correlation_is_found_in_four_of_five_experiments():
    count = 24
    wanted = power.detectable_correlation(count)
    pearson = 2 * math.sin(math.pi * wanted / 6)  # of normal variables with this rank correlation
    draw = np.random.default_rng(0)
    found = 0
    for _ in range(2000):
        x = draw.normal(size=count)
        y = pearson * x + math.sqrt(1 - pearson**2) * draw.normal(size=count)
        found += rank_interval(rank_correlation(x.tolist(), y.tolist()), count)[0] > 0
    assert found / 2000 == pytest.approx(0.8, abs=0.04)
    assert math.isnan(power.detectable_correlation(3))
