"""How claims are judged: by the rules that the page states, on runs made up for it."""

import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from loope.core.errors import LoopeError
from loope.lab.experiments.results import Results
from loope.lab.experiments.statistics import Difference
from loope.three_cell import ThreeCell
from replication import again, claims, generators, page, plan, results, rules
from replication.power import chance_to_find

HOLDS, FAILS, OPEN = rules.HOLDS, rules.FAILS, rules.OPEN
CONFUSION = [[[50, 0], [0, 50]]] * 6  # each bit is set in half of the images
# As the paper has it: accuracies of encoders, and what options of LOOPE and frequency sets add to them.
PAPER = {
    "none": 0.60, "learned": 0.87, "sinusoid": 0.92, "gilbert": 0.91, "loope": 0.97, "peg": 0.71, "irpe": 0.70,
    "fourier": 0.93, "sincos2d_sum": 0.77, "as2drope": 0.75, "sincos2d": 0.90, "rope_mixed": 0.76, "alibi2d": 0.74,
    "own": 0.89,
}  # fmt: skip
VARIANTS = {"rgb": -0.05, "xy": -0.02}


def score(run, accuracies):
    """A run's accuracy: the encoder's, moved a little by the seed, and by its options."""
    options = run.encoder.options
    wobble = 0.001 * ((7 * run.seed + len(run.encoder.name)) % 5)
    moved = VARIANTS.get(options.get("inputs"), 0.0)
    if "frequencies" in options:
        fall = {"arithmetic": -0.1, "random": -0.05, "geometric:0.4305": 0.02}.get(options["frequencies"], 0.0)
        moved += fall * (0.4 if run.encoder.name == "loope" else 1.0)
    return accuracies[run.encoder.name] + wobble + moved


def made_up(accuracies, runs=None):
    """Results of all planned runs, by key."""
    found = {}
    for run in runs or (run for part in plan.PLAN for run in part.runs()):
        value = score(run, accuracies)
        questions = dict.fromkeys(("distance", "orientation", "area", "vector_sum", "average", "top1"), value)
        pesi = {"pesi_m_u": 1 + value, "pesi_m_d": 1 + value, "pesi_a_su": 0.1, "offset_over_images": 0.2}
        result = {"run": json.loads(run.to_json()), "key": run.key, "metrics": {**questions, **pesi}}
        found[run.key] = {**result, "details": {"confusion": CONFUSION}, "history": []}
    return found


@pytest.fixture
def use(monkeypatch):
    """Put made-up results in the place of the real ones."""

    def put(found):
        monkeypatch.setattr(results, "RESULTS", Results(lambda run: found.get(run.key), lambda run: None))
        return found

    return put


def verdicts():
    return {each.claim: each.verdict for each in claims.judged()}


def test_where_all_is_as_published_all_claims_hold(use):
    use(made_up(PAPER))
    assert Counter(verdicts().values()) == {HOLDS: 18}
    assert re.findall(r"\b\d+ (?=claims|hold|do not|are)", again.summary()) == ["16 ", "16 ", "0 ", "0 "]
    own = {line.split(" | ")[0] for line in again.claims().splitlines() if "(ours)" in line}
    assert len(own) == 2


def test_where_loope_is_no_better_the_claims_about_it_do_not_hold(use):
    use(made_up(PAPER | {"loope": 0.85}))
    found = verdicts()
    for claim in (
        *("LOOPE beats Static (Three-Cell)", "LOOPE beats 1D Sinusoid (Three-Cell)"),
        *("LOOPE is the best of Table 4's encoders (Three-Cell)", "Coordinates drive LOOPE's gain"),
        "and better than encoders that Table 4 does not name",
        "LOOPE is the best with every frequency set (Three-Cell for Pets)",
        "the same of a generator that cannot start dead (GELU) against Static",
    ):
        assert found[claim] == FAILS, claim
    for claim in (
        "RPE beats No PE",
        "LOOPE is least sensitive to frequencies (Three-Cell for Pets)",
        "RGB and coordinates together are best",
    ):
        assert found[claim] == HOLDS, claim


def test_relative_encodings_that_answer_well_are_not_close_to_chance(use):
    use(made_up(PAPER | {"irpe": 0.98}))
    found = verdicts()
    assert found["RPE stays close to chance on area and vector sum"] == FAILS
    assert found["absolute encodings (1D sinusoid, LFF) beat RPE on every question"] == FAILS
    use(made_up(PAPER | {"irpe": 0.751}))  # the limit, 0.5 + 0.25, lies within the interval
    assert verdicts()["RPE stays close to chance on area and vector sum"] == OPEN


def test_equal_encoders_cannot_be_told_apart(use):
    use(made_up(dict.fromkeys(PAPER, 0.9)))
    assert verdicts()["LOOPE beats Static (Three-Cell)"] == OPEN


def test_the_page_needs_every_planned_run(use):
    use(made_up(PAPER, plan.PLAN[0].runs()))
    with pytest.raises(LoopeError, match="planned runs are not done"):
        page.render(page.HERE / "page.md")


def test_pesi_is_correlated_over_all_encoders_and_over_those_that_learned(use):
    use(made_up(PAPER))  # PESI follows accuracy
    counts = re.findall(r"\| (\d+), ([^|]+) \| \+1.00 \|", claims.correlations())
    assert counts == 2 * [("12", "all"), ("6", "that end above 80 %")]
    use(made_up(PAPER | dict.fromkeys(("sinusoid", "gilbert", "loope"), 0.5)))
    assert "80 %" not in claims.correlations()  # three are too few for an interval


def test_the_static_curve_is_a_generator_that_moves_nothing(use):
    found = made_up(PAPER)
    for result in found.values():
        if result["run"]["encoder"]["name"] == "loope":
            size = 1 - result["metrics"]["average"]  # the less the better, and the static curve is worse
            result["metrics"] |= {"offset_size": size, "offset_swapped": 0}
    use(found)
    moved, with_static = (line.split(" | ") for line in generators.movement().splitlines()[2:4])
    assert moved[1:3] == ["20, that move patches", "-1.00"]
    assert with_static[1].startswith("25, the static curve's")
    assert -0.9 < float(with_static[2]) < 0.9


def test_generators_that_do_not_see_the_image_are_counted(use):
    found = made_up(PAPER)
    run = next(run for run in plan.PLAN[3].runs() if run.encoder.options.get("activation") == "gelu")
    found[run.key]["metrics"]["offset_over_images"] = 0.0
    use(found)
    shown = {each.claim: each.found for each in claims.judged()}
    assert "in 2 of 3 seeds" in shown["the same of a generator that cannot start dead (GELU) against Static"]
    assert "X_C of RGB only depends on the image in 3 of 3 seeds" in shown["Coordinates drive LOOPE's gain"]


def told(mean: float, p: float) -> Difference:
    return Difference(mean, 1.0, 5, p)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([told(2.0, 0.01)], HOLDS),
        ([told(-2.0, 0.01)], FAILS),
        ([told(2.0, 0.2)], OPEN),
        ([told(-2.0, 0.2)], OPEN),
        ([told(2.0, math.nan)], OPEN),
        ([told(2.0, 0.01), told(1.0, 0.3)], OPEN),
        ([told(2.0, 0.01), told(1.0, 0.04)], HOLDS),  # that all are better needs no correction
        ([told(2.0, 0.01), told(-1.0, 0.01)], FAILS),
        ([told(2.0, 0.30), told(-1.0, 0.04)], OPEN),  # that one of them is worse does
    ],
)
def test_a_verdict_needs_every_part(differences, verdict):
    assert rules.judge(differences) == verdict


def test_an_inconclusive_claim_says_which_effect_would_have_been_found():
    claim = next(each for each in claims.judged() if each.claim == "LOOPE beats Static (Three-Cell)")
    cells = results.by_seed("table4")
    differences = (cells["LOOPE", "Average"] - cells["Static", "Average"]).tolist()
    sizes = np.linspace(0, 5, 501)  # in points
    chances = [chance_to_find(size / stats.sem(differences), len(differences)) for size in sizes]
    expected = sizes[np.searchsorted(chances, 0.8)]
    assert claim.verdict == OPEN
    assert float(claim.smallest) == pytest.approx(expected, abs=0.06)
    assert claims.in_bold(claim.verdict, claim.smallest).endswith(claim.smallest)
    assert claim.smallest not in claims.in_bold(HOLDS, claim.smallest)


def test_what_a_constant_scores_is_that_of_the_test_part():
    rates = ThreeCell(size=10_000, grid=7, cell=4, seed=0, split="test").majority_rates()
    assert claims.replicated().constant() == pytest.approx(
        {"Area": 100 * rates["area"], "Vector sum": 100 * rates["vector_sum"]}
    )
