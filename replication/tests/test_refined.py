"""Static against refined positions, judged on made-up scores."""

import numpy as np
import pytest
from scipy import stats

from loope.lab.experiments.table import get_table
from replication import refined, study
from replication.refined import BASES, GENERATORS, HELPS, HURTS, NO, OPEN, SEEDS, WAITING, YES
from replication.tests.made_up import result, store


def scores(gains=None, spread=0.5):
    """Scores of all rows: 90, what a row has more, and noise."""
    draw = np.random.default_rng(1)
    return {
        row: {seed: 90 + (gains or {}).get(row, 0) + spread * draw.normal() for seed in range(SEEDS)}
        for row in (f"{base}, {generator}" for base in BASES for generator in GENERATORS)
    }


@pytest.mark.parametrize(("generator", "bases"), [("conv mixer", 5), ("offsets to 4", 2)])
def test_the_bases_of_a_generator_are_corrected_together(generator, bases):
    found = scores({f"Gilbert, {generator}": 1.0})
    pairs = refined.does_it_help(found)
    assert len(pairs) == 4 * 5 + 2 * 2
    ones, others = (list(found[f"Gilbert, {name}"].values()) for name in (generator, "static"))
    expected = stats.ttest_rel(ones, others).confidence_interval(1 - 0.05 / bases)
    interval = pairs["Gilbert", generator].found
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_the_image_is_compared_with_coordinates():
    found = scores({"Raster, conv mixer": 5.0})
    pairs = refined.is_it_the_image(found)
    assert len(pairs) == 3 * 5 + 2 * 2
    ones, others = (list(found[f"Raster, {name}"].values()) for name in ("conv mixer", "coordinates only"))
    expected = stats.ttest_rel(ones, others).confidence_interval(1 - 0.05 / 5)
    assert pairs["Raster", "conv mixer"].found.low == pytest.approx(expected.low)


def test_verdicts_follow_the_interval():
    found = scores({"Gilbert, conv mixer": 8.0, "Gilbert, offsets to 4": -8.0})
    del found["RoPE mixed, static"][3]
    pairs = refined.does_it_help(found)
    assert pairs["Gilbert", "conv mixer"].verdict == HELPS
    assert pairs["Gilbert", "offsets to 4"].verdict == HURTS
    assert pairs["Raster", "conv mixer"].verdict == OPEN
    assert pairs["RoPE mixed", "conv mixer"] == (None, 4, WAITING)


def test_pairs_on_pets_are_those_of_the_same_seeds():
    found = {"LOOPE": {0: 82.0, 1: 83.0, 2: 80.0}, "Static": {0: 81.0, 2: 80.5, 1: 81.0}, "2D sin/cos": {0: 80.0}}
    ones, others = [82.0, 83.0, 80.0], [81.0, 81.0, 80.5]
    expected = stats.ttest_rel(ones, others).confidence_interval(1 - 0.05 / 3)
    ((row, interval),) = refined.on_pets(found).items()
    assert row == "LOOPE"
    assert interval == pytest.approx((2.5 / 3, expected.low, expected.high))


@pytest.mark.parametrize(("gain", "verdict"), [(5.0, YES), (-5.0, NO), (0.0, OPEN)])
def test_the_best_on_validation_is_compared_on_test(gain, verdict):
    best = "Gilbert, offsets to 0.25"
    test, validation = scores({best: gain, "Raster, conv mixer": 9.0}), scores({best: 3.0})
    found = refined.is_it_worth_it(test, validation)
    assert (found.variant, found.verdict) == (best, verdict)
    ones, others = list(test[best].values()), list(test["RoPE mixed, static"].values())
    expected = stats.ttest_ind(ones, others, equal_var=False).confidence_interval(0.95)
    assert found.found["RoPE mixed"].low == pytest.approx(expected.low)


def test_the_best_waits_for_all_variants():
    test = scores()
    del test["Gilbert, conv mixer"][0]
    assert refined.is_it_worth_it(test, scores()) is None


def test_scores_are_read_from_the_runs(tmp_path, monkeypatch):
    runs = [run for run in study.PLAN[2].runs() if run.seed < 2]
    store(tmp_path, monkeypatch, [result(run, 0.8, validation=0.7) for run in runs])
    test, validation = refined.scores(), refined.scores("validation")
    assert set(test) == {entry.row for entry in get_table("refined").entries("laptop")}
    assert len(test) == 5 * 5 + 2 * 2
    assert validation["Gilbert, static"] == pytest.approx({0: 70.0, 1: 70.0})
    assert 80.0 <= test["Gilbert, static"][0] < 81.0
    assert "0 of 24 refined variants" in refined.answers()
    assert refined.pairs_table(refined.does_it_help(test)).count("2 of 5 seeds") == 24
