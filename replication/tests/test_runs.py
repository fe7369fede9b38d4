"""The file of runs, and what the page's words rest on."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file

import loope
from loope.lab.data.segmentation import CamVid, SegmentationSource
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run
from loope.lab.experiments.statistics import paired
from loope.lab.experiments.table import get_table
from loope.lab.experiments.three_cell import ThreeCellProbe
from loope.segmentation.labels import VOID
from replication import page, plan, rules
from replication.collect import collect
from replication.results import PICTURES, RUNS, compact, expand, finished
from tests.weights import data, weights

LINES = RUNS.read_text().splitlines()
DOCS = page.DOCS


def test_every_run_has_its_own_key_and_says_nothing_of_where_it_was_done():
    keys = set()
    for line in LINES:
        found = json.loads(line)
        assert found["key"] == Run.from_json(json.dumps(found["run"])).key
        assert not re.search(r'"/|\w+@\w+|[a-z]:\\\\', line), "a path or an address"
        assert set(found["machine"]) == {"system", "cores", "threads", "gpus"}
        keys.add(found["key"])
    assert len(keys) == len(LINES) > 130
    assert {name.split("/")[0] for name in load_file(PICTURES)} <= keys


def test_a_compact_history_says_the_same():
    history = [
        {"epoch": n, "loss": 1 / n, "lr": 0.1, "seconds": 2.0 * n, "metrics": {"average": n / 7, "confusion": [[1, 2]]}}
        for n in (1, 2, 3)
    ]
    again = expand(json.loads(json.dumps(compact({"key": "x", "history": history}))))
    assert again["key"] == "x"
    for before, after in zip(history, again["history"], strict=True):
        assert after["epoch"] == before["epoch"]
        assert after["loss"] == pytest.approx(before["loss"], rel=1e-5)
        assert after["metrics"] == {"average": pytest.approx(before["metrics"]["average"], rel=1e-5)}


def test_collecting_adds_planned_runs_and_keeps_the_rest(tmp_path, monkeypatch):
    kept = [json.loads(line) for line in LINES]
    planned = next(each for each in kept if each["key"] in plan.planned())
    for name, source in (("RUNS", RUNS), ("PICTURES", PICTURES)):
        copy = tmp_path / source.name
        copy.write_bytes(source.read_bytes())
        monkeypatch.setattr(f"replication.collect.{name}", copy)
    (tmp_path / RUNS.name).write_text("".join(f"{line}\n" for line in LINES if planned["key"] not in line))
    for folder, result in (("one", expand(planned)), ("other", {**expand(planned), "key": "of no plan"})):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / "run.json").write_text(json.dumps(result))
    assert collect(tmp_path) == len(LINES)
    again = {json.loads(line)["key"]: json.loads(line) for line in (tmp_path / RUNS.name).read_text().splitlines()}
    assert again == {each["key"]: each for each in kept}


@pytest.mark.parametrize(("template", "written"), page.PAGES.items(), ids=lambda path: path.stem)
def test_the_pages_are_fresh(template, written):
    assert page.render(template) == written.read_text(), "run `python -m replication.page`"


def test_the_first_page_is_short_and_opens_with_what_came_out():
    text = (DOCS / "replication.md").read_text()
    assert len(text.split()) <= 3000
    opening = text.partition("\n## ")[0]
    assert opening.splitlines()[2].startswith("![")
    assert opening.count("\n- ") == 3
    assert "| inconclusive |" in opening


def test_the_page_uses_every_number_that_is_computed_for_it():
    used = set(re.findall(r"\{\{ ([\w-]+) \}\}", "".join(template.read_text() for template in page.PAGES)))
    assert page.numbers().keys() | page.TABLES.keys() == used


def test_a_name_that_nothing_fills_is_an_error(tmp_path):
    (tmp_path / "page.md").write_text("{{ runs }} runs and {{ nonsense }}")
    with pytest.raises(loope.LoopeError, match="nonsense"):
        page.render(tmp_path / "page.md")


def test_the_size_of_the_models_own_table():
    own = load_file(weights("vit_tiny_patch16_224.safetensors"))["pos_embed"][0, 1:]  # the class token comes first
    assert f"{own.square().mean().sqrt():.2f}" == page.OWN_TABLE


def test_encoders_that_end_low_are_run_for_longer():
    ends = {}
    for row, result in finished("table4"):
        ends.setdefault(row, []).append(result["history"][-1]["metrics"]["average"])
    low = {f"{row} |*" for row, found in ends.items() if sum(found) / len(found) < 0.8} - {"No PE |*"}
    assert low == set(plan.STUCK)


@pytest.mark.parametrize(("row", "alive"), [("LOOPE |*", [True] * 5), ("LOOPE, 14x14 |*", [False] * 3 + [True])])
def test_which_generators_on_three_cell_start_alive(row, alive):
    run = get_table("table4").select("laptop", row)[0].run
    shown = loope.ThreeCell(size=40, grid=run.data.options["grid"], cell=run.data.options["cell"])
    images = torch.stack([image for image, _ in shown]) * 2 - 1  # as in training
    for seed, lives in enumerate(alive):
        model = ThreeCellProbe(run.with_seed(seed), Settings()).build_model()
        encoder = model.loope.encoders[0][0].eval()
        with torch.no_grad():
            assert bool(encoder.offsets(images).std(0).max() > 0) == lives, f"seed {seed}"


def test_what_would_be_judged_if_the_original_set_were_the_default():
    scores = rules.on_frequencies(default=True)
    geometric = [paired(scores["Geometric", column], scores["Original", column]) for column in page.COLUMNS]
    best = [
        paired(scores[row, "LOOPE"], scores[row, other])
        for row in ("Original", "Arithmetic", "Geometric", "Random")
        for other in page.COLUMNS[:2]
    ]
    moved = rules.sensitivities(default=True)
    sensitive = [paired(moved[other], moved["LOOPE"]) for other in page.COLUMNS[:2]]
    assert [rules.judge(parts) for parts in (geometric, best, sensitive)] == [rules.FAILS, rules.FAILS, rules.OPEN]


def test_on_14x14_loope_is_above_the_static_curve_with_each_question():
    large = {row.removesuffix(", 14x14"): found for row, found in finished("table4", plan.LARGE_EPOCHS)}
    for task in ("distance", "orientation", "area", "vector_sum"):
        assert large["LOOPE"]["metrics"][task] > large["Static"]["metrics"][task], task


def test_what_a_constant_scores_on_camvid():
    data("camvid")
    targets = [masks for _, masks in SegmentationSource(CamVid("test"), 8, (240, 320)).batches(0)]
    counts = sum(masks.flatten().bincount(minlength=256) for masks in targets)
    score = loope.SegmentationScore(classes=len(CamVid.labels))
    for masks in targets:
        score.update(torch.full_like(masks, counts[:VOID].argmax().item()), masks)
    told = score.compute()
    stated = re.search(
        r"gives ([\d.]+) % pixel accuracy and a mIoU of ([\d.]+) %", (DOCS / "segmentation.md").read_text()
    )
    assert (f"{100 * told['accuracy']:.1f}", f"{100 * told['miou']:.1f}") == stated.groups()
