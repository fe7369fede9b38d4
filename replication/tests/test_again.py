"""The claims under the study's recipe: judged by the replication's rules, when all runs are done."""

import pytest

from replication import again, study
from replication.rules import FAILS, HOLDS
from replication.tests.made_up import result, store

PAPER = {
    "none": 0.60, "learned": 0.87, "sinusoid": 0.92, "gilbert": 0.91, "loope": 0.97, "peg": 0.71, "irpe": 0.70,
    "fourier": 0.93, "sincos2d_sum": 0.77, "as2drope": 0.75, "sincos2d": 0.90, "rope_mixed": 0.76, "alibi2d": 0.74,
    "rope_axial": 0.75,
}  # fmt: skip


@pytest.fixture
def use(tmp_path, monkeypatch):
    """Put made-up results of the encoders that claims name in the place of the real ones."""

    def put(accuracies, leave_out=0):
        runs = [run for run in study.planned().values() if run.encoder.name in accuracies and not run.encoder.options]
        small = [run for run in runs if run.data.options["grid"] == 7]
        store(tmp_path, monkeypatch, [result(run, accuracies[run.encoder.name]) for run in small[leave_out:]])
        return {each.before.claim: each.now for each in again.again()}

    return put


def test_the_claims_hold_where_all_is_as_published(use):
    found = use(PAPER)
    again_judged = {claim: each.verdict for claim, each in found.items() if each.verdict != again.ELSEWHERE}
    assert set(again_judged.values()) == {HOLDS}
    assert len(again_judged) == 9
    assert "(ours)" in again.claims_again()
    assert again.counts().splitlines()[-1] == "| new recipe | 8 | 0 | 0 | 0 |"


def test_they_do_not_where_loope_is_worse(use):
    found = use(PAPER | {"loope": 0.85})
    assert found["LOOPE beats Static (Three-Cell)"].verdict == FAILS
    assert found["RPE beats No PE"].verdict == HOLDS


def test_nothing_is_judged_before_all_its_runs_are_done(use):
    found = use(PAPER, leave_out=1)  # a seed of No PE
    waiting = {claim: each.told for claim, each in found.items() if each.verdict == again.WAITING}
    assert waiting["RPE beats No PE"] == "9 of 10 runs"
    assert set(waiting) == {"RPE beats No PE", "LOOPE is the best of Table 4's encoders (Three-Cell)"}


def test_claims_about_other_experiments_are_listed_apart(use):
    use(PAPER)
    apart, both = again.elsewhere(), again.claims()
    assert "(Pets)" in apart
    assert "RPE beats No PE" not in apart
    assert len(both.splitlines()) == 2 + 18
