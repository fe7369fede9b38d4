"""How claims are judged: by the rules that the page states."""

import math
import sys

import pytest

from loope.experiments.statistics import Difference
from tests.docs import test_documents  # noqa: F401  (loads the builders)

claims = sys.modules["build_claims"]
replication = sys.modules["build_replication"]


def told(mean: float, p: float, n: int = 5) -> Difference:
    return Difference(mean, 1.0, n, p)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([told(2.0, 0.01)], claims.HOLDS),
        ([told(-2.0, 0.01)], claims.FAILS),
        ([told(2.0, 0.2)], claims.OPEN),
        ([told(-2.0, 0.2)], claims.OPEN),
        ([told(2.0, 0.01), told(1.0, 0.3)], claims.OPEN),
        ([told(2.0, 0.01), told(-1.0, 0.01)], claims.FAILS),
        ([told(2.0, 0.01), told(1.0, 0.04)], claims.HOLDS),
        ([told(2.0, math.nan, n=1)], claims.OPEN),
    ],
)
def test_a_verdict_needs_every_part(differences, verdict):
    assert claims.judge(differences, [each.p for each in differences], planned=True) == verdict
    assert claims.judge(differences, [each.p for each in differences], planned=False) == claims.EARLY


def accuracies(by_row: dict[str, list[float]]):
    return {(row, "Average"): dict(enumerate(values)) for row, values in by_row.items()}


def test_best_of_all_is_corrected_and_waits_for_all(monkeypatch):
    rows = {row: [80.0, 81.0, 80.5] for row in replication.COMPARED}
    ours = {"LOOPE": [90.0, 91.0, 90.4]}
    monkeypatch.setattr(replication, "by_seed", lambda _: accuracies(rows | ours))
    assert claims.best_of_all().verdict == claims.HOLDS
    monkeypatch.setattr(replication, "by_seed", lambda _: accuracies(rows | ours | {"2D sin/cos": [95.0, 96.0, 95.4]}))
    found = claims.best_of_all()
    assert found.verdict == claims.FAILS
    assert "surely below 2D sin/cos;" in found.found
    fewer = {row: values for row, values in rows.items() if row != "RPE"}
    monkeypatch.setattr(replication, "by_seed", lambda _: accuracies(fewer | ours))
    assert claims.best_of_all().verdict == claims.EARLY


def test_a_difference_that_only_one_test_would_believe_is_not_believed_among_many(monkeypatch):
    rows = {row: [80.0, 82.0, 81.0] for row in replication.COMPARED}
    wide = {"LOOPE": [85.0, 85.0, 86.0]}  # p = 0.023 against each
    monkeypatch.setattr(replication, "by_seed", lambda _: accuracies(rows | wide))
    assert all(found.p < claims.LEVEL < corrected for found, corrected in replication.against_loope().values())
    assert claims.best_of_all().verdict == claims.OPEN


@pytest.mark.parametrize(
    ("area", "verdict"),
    [([70.0, 71.0, 70.5], claims.HOLDS), ([95.0, 96.0, 95.5], claims.FAILS), ([60.0, 95.0, 80.0], claims.OPEN),
     ([70.0, 71.0], claims.EARLY)],
)  # fmt: skip
def test_close_to_chance(monkeypatch, area, verdict):
    cells = {("RPE", "Area"): dict(enumerate(area)), ("RPE", "Vector sum"): {0: 70.0, 1: 71.0, 2: 70.5}}
    monkeypatch.setattr(claims, "by_seed", lambda _: cells)
    monkeypatch.setattr(claims, "_constant", lambda: {"Area": 51.0, "Vector sum": 52.0})
    assert claims.relative_near_chance().verdict == verdict


def test_what_a_constant_scores_is_that_of_the_test_part():
    from loope.data.three_cell import ThreeCell

    rates = ThreeCell(size=10_000, grid=7, cell=4, seed=0, split="test").majority_rates()
    found = claims._constant()
    assert found == pytest.approx({"Area": 100 * rates["area"], "Vector sum": 100 * rates["vector_sum"]})


@pytest.mark.parametrize(("sign", "verdict"), [(1, claims.HOLDS), (-1, claims.FAILS)])
def test_alignment_is_judged_by_its_interval(monkeypatch, sign, verdict):
    rows = [*replication.COMPARED, "LOOPE"]
    order = [0, 1, 2, 3, 5, 4, 6, 7, 8, 10, 9, 11]
    cells = {(row, "M_U"): {0: place} for place, row in enumerate(rows)}
    cells |= {(row, "Distance"): {0: sign * order[place]} for place, row in enumerate(rows)}
    monkeypatch.setattr(claims, "by_seed", lambda _: cells)
    assert claims.aligned("Distance", "M_U").verdict == verdict
    monkeypatch.setattr(claims, "by_seed", lambda _: dict(list(cells.items())[1:]))
    assert claims.aligned("Distance", "M_U").verdict == claims.EARLY


def test_lower_sensitivity_is_the_claim(monkeypatch):
    def cells(loope_drop: float):
        falls = {"1D Sinusoid": 10.0, "Static": 8.0, "LOOPE": loope_drop}
        return {
            (name, column): {
                seed: 95.0 + seed / 10 - (place > 0) * (fall + (seed * place) % 3 / 10) for seed in range(3)
            }
            for place, name in enumerate(("Original", "Arithmetic", "Geometric", "Random"))
            for column, fall in falls.items()
        }

    monkeypatch.setattr(claims, "by_seed", lambda _: cells(2.0))
    assert claims.frequencies().verdict == claims.HOLDS
    monkeypatch.setattr(claims, "by_seed", lambda _: cells(20.0))
    assert claims.frequencies().verdict == claims.FAILS
