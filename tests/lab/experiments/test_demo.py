"""The demo: its sentences follow its numbers, and the swap starts from the model that was trained."""

import dataclasses

import pytest
import timm
import torch

from loope.core.grid import Grid
from loope.lab.experiments import demo, demo_swap
from loope.lab.experiments import demo_words as words
from loope.lab.experiments.demo_report import references, rows
from loope.lab.experiments.sweep import Outcome
from loope.surgery.attach import attach

CONSTANT = 56.0
OFFSETS = {"offset_size": 0.4, "offset_over_images": 0.02}


def results(**averages):
    """Results with these averages, in percent."""
    scores = {"loope": 91.5, "sincos2d": 97.7, "gilbert": 94.0, "sinusoid": 95.0, "none": CONSTANT, **averages}
    return {name: {"metrics": {"average": score / 100, **OFFSETS}} for name, score in scores.items()}


@pytest.mark.parametrize(
    ("loope", "curve", "plane"),
    [
        (90.5, "3.5 points less than", "7.2 points less than"),
        (99.9, "5.9 points more than", "too close to"),
        (94.5, "too close to", "3.2 points less than"),
        (97.2, "3.2 points more than", "too close to"),
    ],
)
def test_the_conclusion_says_where_loope_came_out(loope, curve, plane):
    said = words.conclusion(results(loope=loope), CONSTANT)
    assert f"{curve} the fixed curve" in said
    assert f"{plane} sincos2d" in said
    assert f"{loope} %" in said
    assert ("with loope" if loope > 97.7 else "with sincos2d") in said
    assert ". " not in said  # one sentence


def test_the_conclusion_names_the_best_encoder_and_both_floors():
    said = words.conclusion(results(sinusoid=98.8, none=55.2), CONSTANT)
    assert "98.8 % right with sinusoid" in said
    assert "55.2 %" in said
    assert "56.0 %" in said


def test_the_conclusion_of_a_run_in_which_nothing_was_learned():
    flat = results(**dict.fromkeys(("loope", "sincos2d", "gilbert", "sinusoid", "none"), 56.5))
    said = words.conclusion(flat, CONSTANT)
    assert "No encoder learned" in said
    assert "56.5 %" in said
    assert "Positions decide" not in said


@pytest.mark.parametrize(
    "explain",
    [
        lambda step: words.explain_curve(step, Grid(7, 7)),
        words.explain_order,
        lambda step: words.explain_refinement(step, OFFSETS),
    ],
)
def test_explanations_have_three_outcomes(explain):
    better, worse, close = (explain(words.Step("a", "b", points)) for points in (3.5, -4.5, -0.5))
    assert "3.5 points" in better
    assert "4.5 points" in worse
    assert "-" not in worse.split("In this run")[1]  # a cost is told as a positive number
    assert "-0.5 points" in close
    assert "one seed" in close
    assert len({text.split("In this run")[1] for text in (better, worse, close)}) == 3


def test_a_step_is_the_difference_of_two_encoders():
    found = {pair: words.step(results(), *pair) for pair in words.ASKED}
    assert found["sincos2d", "gilbert"].points == pytest.approx(-3.7)
    assert found["gilbert", "loope"].points == pytest.approx(-2.5)
    assert not found["sincos2d", "gilbert"].close
    assert found["sinusoid", "gilbert"].close


def test_encoders_that_still_rise_are_named():
    histories = {"loope": (0.80, 0.90, 0.91), "sinusoid": (0.60, 0.70, 0.74), "none": (0.56,)}
    given = {name: {"history": [{"metrics": {"average": each}} for each in seen]} for name, seen in histories.items()}
    late = words.rising(given)
    assert late == pytest.approx({"sinusoid": 4.0})
    assert words.judged(words.Step("sinusoid", "gilbert", 16.0), late) == "too early"
    assert words.judged(words.Step("gilbert", "sinusoid", 1.0), late) == "too close"
    assert words.judged(words.Step("gilbert", "loope", -3.0), late) == "likely"


def swap(steps, **lost):
    original = {**dict.fromkeys(words.QUESTIONS, 0.98), "average": 0.98}
    now = {name: value - lost.get(name, 0.0) for name, value in original.items()}
    return original, {"steps": steps, "processor_seconds": 20.0, "naive": {**original, "average": 0.51}, "swapped": now}


def test_a_swap_is_told_with_what_it_lost():
    original, found = swap(800, vector_sum=0.12, area=0.02, average=0.04)
    told = words.explain_swap("rope_mixed", found, original, 70.3)
    assert all(number in told for number in ("51.0 %", "94.0 %", "98.0 %", "800 steps", "12.0 points", "70.3 %"))
    original, found = swap(800, distance=0.12, average=0.04)
    told = words.explain_swap("rope_mixed", found, original, 70.3)
    assert "distance" in told
    assert "70.3 %" not in told  # explains the vector sum only
    original, found = swap(0, vector_sum=0.01, average=0.001)
    told = words.explain_swap("fourier", found, original, 70.3)
    assert "97.9 %" in told
    assert "loses" not in told


def test_the_table_has_the_best_first_and_what_to_compare_with():
    full = {
        name: {
            "metrics": {**dict.fromkeys(words.QUESTIONS, 0.9), **result["metrics"]},
            "parameters": {"encoder": 0},
            "images_per_second": 100.0,
        }
        for name, result in results().items()
    }
    assert [row[0] for row in rows(full)] == ["sincos2d", "sinusoid", "gilbert", "loope", "none"]
    constant, relative = references(demo.demo_runs(True, 0)[0])
    assert float(constant[2].rstrip("%")) < 60  # orientation
    assert relative[1:6] == ["100%", "100%", "98.2%", "70.3%", "92.1%"]  # docs/three-cell.md


def test_the_vectors_of_the_encoder_become_the_models_own_table():
    torch.manual_seed(0)
    shape = {**demo.demo_runs(True, 0)[0].model.options, "embed_dim": 16, "num_heads": 2}
    model = attach(timm.create_model("vit_tiny_patch16_224", num_classes=6, **shape), "sincos2d").eval()
    images = torch.rand(2, 3, 28, 28)
    before = model.forward_features(images)  # the head starts at zero
    own = demo_swap.with_own_table(model)
    assert not hasattr(own, "loope")
    torch.testing.assert_close(own.forward_features(images), before)
    with torch.no_grad():
        own.pos_embed.zero_()
    assert not torch.allclose(own.forward_features(images), before, atol=1e-3)


def test_swaps_of_other_settings_are_made_again(tmp_path, monkeypatch):
    run = demo.demo_runs(True, 0)[1]
    folder = tmp_path / run.name
    folder.mkdir()
    assert demo_swap.read_swaps(run, tmp_path, True) is None
    (folder / demo_swap.SWAP).write_text('{"settings": ' + str(demo_swap._settings(True)).replace("'", '"') + "}")
    assert demo_swap.read_swaps(run, tmp_path, True) is not None
    assert demo_swap.read_swaps(run, tmp_path, False) is None
    monkeypatch.setattr(demo_swap, "LR", 1e-3)
    assert demo_swap.read_swaps(run, tmp_path, True) is None
    (folder / demo_swap.SWAP).write_text("{")
    assert demo_swap.read_swaps(run, tmp_path, True) is None


def test_a_failed_run_ends_the_demo_before_the_swap(tmp_path, monkeypatch):
    runs = demo.demo_runs(True, 0)
    watched = []

    def sweep(some, out, executor, settings, watch):
        assert some == runs[:-1]
        watch(some[2:])
        return Outcome([], {"a run": "failed"}, [])

    monkeypatch.setattr(demo, "run_sweep", sweep)
    outcome, swaps = demo.run_demo(runs, tmp_path, None, watched.append, True)  # no executor is asked
    assert outcome.failures
    assert swaps is None
    assert watched == [runs[2:]]  # the last run is not done either, though it was not begun


def test_runs_differ_in_the_encoder_only():
    first, *others = demo.demo_runs(False, 3)
    assert {dataclasses.replace(each, encoder=first.encoder) for each in others} == {first}
    assert first.seed == 3
