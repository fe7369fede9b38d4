"""The guide says what the numbers say: statements change with them, and are missing without them."""

import json
import re

import pytest

import loope
from loope.encoders import encoder_class
from loope.lab.experiments.statistics import Mean
from loope.lab.experiments.tables import encoders
from replication import again, ceilings, evidence, guide, page, refined, rules, study, which
from replication.claims import Judged
from replication.evidence import Kept
from replication.tests.made_up import result, store


@pytest.fixture(scope="module")
def found():
    return evidence.gather()


def with_scores(found, scores, grids=None):
    """Evidence in which encoders have these scores, and the others none."""
    made = {
        name: each._replace(
            scores=[scores[name] + 0.1 * seed for seed in range(each.planned)] if name in scores else [],
            grids={side: Mean(score, 0.1, 3) for side, score in (grids or {}).get(name, {}).items()},
        )
        for name, each in found.encoders.items()
    }
    return found._replace(encoders=made)


def test_every_encoder_is_listed(found):
    assert set(found.encoders) == set(loope.list_encoders())
    planned = {name for name, each in found.encoders.items() if each.planned}
    assert planned == {name for name, options in encoders.ROWS.values() if not options}
    assert all(each.m_d is not None for each in found.encoders.values()), "docs/pesi.md lists every encoder"
    assert len(which.main_table().splitlines()) == 2 + len(found.encoders)


def test_what_keeps_a_pretrained_model_is_what_loses_nothing(found):
    sizes = {
        "own": {224: Kept(80, 0, 0), 384: Kept(75, 0, 0)},
        "loope": {224: Kept(79.5, -0.5, 1.0), 384: Kept(75.2, 0.2, 0.5)},
        "fourier": {224: Kept(80.2, 0.2, 0.5), 384: Kept(70.0, -5.0, 1.0)},
        "sincos2d": {224: Kept(70.0, -10.0, 1.0), 384: Kept(70.0, -5.0, 1.0)},
    }
    assert guide.pretrained(found._replace(sizes=sizes)).answer.startswith("`loope`, `fourier` with")
    answer = guide.other_resolution(found._replace(sizes=sizes)).answer
    assert answer.startswith("`loope` with")
    assert answer.endswith("from 224 to 384 px")
    assert guide.pretrained(found._replace(sizes={})).answer == guide.UNKNOWN


def test_hand_overs_are_told_by_what_is_kept(found):
    kept = {"rope_axial": (500, 75.0), "none": (500, 60.0), "peg": (1000, 76.5), "gilbert": (500, 79.0)}
    made = {name: each._replace(handed_over=kept.get(name)) for name, each in found.encoders.items()}
    advice = guide.handed_over(found._replace(encoders=made, own_at_once=80.4))
    assert advice.answer.endswith("of 80.4 % top-1, `peg` keeps 76.5")  # `gilbert` is fitted, `none` no encoding
    assert advice.because == "After 500 or 1,000 steps of 16 images: `peg` 76.5, `rope_axial` 75.0."
    none = {name: each._replace(handed_over=None) for name, each in found.encoders.items()}
    assert guide.handed_over(found._replace(encoders=none)).answer == guide.UNKNOWN


def test_fine_tuned_models_are_compared_with_the_own_table(found):
    assert guide.fine_tuned(found._replace(own_pets={})).answer == guide.UNKNOWN
    top1 = {"gilbert": [91.0, 92.0, 96.0], "loope": [80.0, 81.0, 85.0], "peg": [95.0, 95.0]}  # the last has few seeds
    pets = {name: dict(enumerate(each)) for name, each in top1.items()}
    encoders = {name: each._replace(pets=pets.get(name, {})) for name, each in found.encoders.items()}
    advice = guide.fine_tuned(found._replace(encoders=encoders, own_pets={2: 95.0, 1: 91.0, 0: 92.0}))
    # Differences of gilbert are -1, 1, 1; the mean is 1/3, its standard error 2/3, Student's limit 4.303.
    assert "own table (92.7 %)" in advice.answer
    assert advice.answer.endswith(" `gilbert` +0.3 ± 2.9, `loope` -10.7 ± 2.9")


def test_who_is_not_measurably_behind_the_best(found):
    advice = guide.from_scratch(with_scores(found, {"gilbert": 97.0, "learned": 96.95, "fourier": 94.0, "peg": 60.0}))
    assert advice.answer == "`gilbert` is the best; `learned` not measurably behind"
    assert "Below 80 %, though more is possible: `peg`" in advice.because
    assert f"4 of {len(found.encoders)} encoders have 3 seeds" in advice.because
    assert guide.from_scratch(with_scores(found, {"gilbert": 97.0})).answer == guide.UNKNOWN


def test_an_encoder_with_few_seeds_is_not_compared(found):
    some = with_scores(found, {"gilbert": 97.0, "learned": 96.0, "fourier": 99.0})
    del some.encoders["fourier"].scores[2:]
    assert guide.from_scratch(some).answer == "`gilbert` is the best"


def test_the_readme_has_what_is_known(found):
    few = guide.advise_in_short(with_scores(found, {}))
    more = guide.advise_in_short(with_scores(found, {"gilbert": 97.0, "learned": 96.0}))
    assert len(few) == len(more) == 4
    assert not any(guide.UNKNOWN in each.answer for each in few + more)
    assert [each.answer for each in more if each not in few] == ["`gilbert` is the best"]


def test_who_works_on_other_grids(found):
    scores = {"gilbert": 97.0, "learned": 98.0, "fourier": 96.0}
    grids = {"gilbert": {5: 95, 10: 50}, "learned": {5: 97, 10: 91}, "fourier": {5: 95, 10: 80}}
    advice = guide.other_grids(with_scores(found, scores, grids))
    assert advice.answer.startswith("`learned` stays above 90 %")
    assert "though above 90 % on 7x7: `gilbert`." in advice.because
    assert "`fourier`" not in advice.because.partition("At 60 %")[2]
    none = guide.other_grids(with_scores(found, scores, {name: {5: 40} for name in scores}))
    assert none.answer.startswith("none stays above 90 %")


def test_flash_attention_and_export_follow_the_registry(found):
    bias = {name for name in loope.list_encoders() if "bias" in encoder_class(name).hooks()}
    answer = guide.export(found).answer
    assert set(re.findall(r"`(\w+)`", answer.split("(no flash")[0])) == bias
    moved = found.encoders["learned"]._replace(training=2.0)
    assert "`learned` 2.00" in guide.export(found._replace(encoders={"learned": moved})).because


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ((rules.HOLDS, rules.HOLDS), "worth a try"),
        (
            (rules.HOLDS, rules.FAILS),
            "on LOOPE; on Three-Cell it is measurably above 1D sinusoids and measurably below the curve",
        ),
        ((rules.OPEN, again.WAITING), "measurably below 1D sinusoids and not measurably above the curve"),
    ],
)
def test_what_is_said_of_loope_is_what_was_judged(found, monkeypatch, verdicts, words):
    old = {"1D Sinusoid": rules.FAILS, "Static": rules.OPEN}
    made = [
        again.Again(
            Judged(f"LOOPE beats {row} (Three-Cell)", "", "", before, "-", False), rules.Found("", verdict, "-")
        )
        for (row, before), verdict in zip(old.items(), verdicts, strict=True)
    ]
    monkeypatch.setattr(again, "again", lambda: made)
    assert words in guide.loope(found).answer


def test_refinement_is_told_by_its_verdicts(found, monkeypatch, tmp_path):
    runs = study.PLAN[2].runs()
    good = {"gilbert": 0.1}
    made = [result(run, 0.8 + good.get(run.encoder.name, 0) * bool(run.encoder.options)) for run in runs]
    store(tmp_path, monkeypatch, made)
    helped = [pair for pair in refined.does_it_help(refined.scores()).values() if pair.verdict == refined.HELPS]
    assert len(helped) == 6
    assert (
        "In 24 tests of `refine` against the same encoder without it, 6 gains and 0 losses"
        in guide.loope(found).because
    )


def test_a_run_after_a_swap_fills_its_cell(tmp_path, monkeypatch):
    store(tmp_path, monkeypatch, [])
    assert evidence.gather().encoders["sincos2d"].pets == {}
    runs = [run for run in study.SWAP[0].runs() if run.encoder.name in {"own", "sincos2d"}]
    made = [result(run, 0.9) | {"metrics": {"top1": 0.8 if run.encoder.options else 0.9}} for run in runs]
    study.SWAP_FILE.write_text("".join(json.dumps(study.compact(each)) + "\n" for each in made))
    found = evidence.gather()
    assert found.encoders["sincos2d"].pets == dict.fromkeys(range(3), 90.0)
    assert found.own_pets == dict.fromkeys(range(3), 90.0)
    assert "90.0 ± 0.0 (3)" in next(line for line in which.main_table().splitlines() if "`sincos2d`" in line)


def test_the_figure_shows_every_encoder_that_was_run(tmp_path, monkeypatch):
    store(tmp_path, monkeypatch, [result(run, 0.9, other=0.6) for run in study.PLAN[0].runs()[:10]])
    drawn = []
    monkeypatch.setattr(which, "png", lambda figure: drawn.append(figure) or b"")
    which.draw(tmp_path)
    (ax,) = drawn[0].axes
    assert {text.get_text() for text in ax.texts} == {"none", "learned"}
    assert (tmp_path / which.FIGURE).exists()
    store(tmp_path, monkeypatch, [])
    which.draw(tmp_path)
    assert not drawn[1].axes[0].texts


def test_the_study_holds_planned_runs_that_say_nothing_of_where_they_were_done():
    for file, keys in (
        (study.FILE, study.planned()),
        (study.SWAP_FILE, {run.key for part in study.SWAP for run in part.runs()}),
    ):
        for line in file.read_text().splitlines() if file.exists() else []:
            assert json.loads(line)["key"] in keys
            assert not re.search(r'"/|\w+@\w+|[a-z]:\\\\', line), "a path or an address"


def test_models_by_kind_are_those_of_the_page():
    counts = re.findall(r"\w+ (\d+)", which.models())
    row = next(line for line in (evidence.DOCS / "models.md").read_text().splitlines() if "timm, ViT-like" in line)
    first = [cell.split()[0] for cell in row.split(" | ")[1:6]]  # all models, then additive, rotary, bias, conditional
    assert sorted(counts) == sorted([*first[1:], first[0]])


def test_pages_can_be_written_when_some_runs_are_done(tmp_path, monkeypatch):
    runs = list(study.planned().values())
    store(tmp_path, monkeypatch, [result(run, 0.9, other=0.8) for run in runs[::2]])
    made = {name: table() for part in (again, ceilings, refined, which) for name, table in part.TABLES.items()}
    assert made.keys() <= page.TABLES.keys()
    assert not any("nan" in table.split() for table in made.values())
    assert "not judged yet" in made["claims"]
    assert "Not judged yet" in made["refined-answers"]
