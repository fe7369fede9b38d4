"""The plan of the study, and its file of results."""

import json

import pytest

from loope.lab.experiments.results import RESULT
from loope.lab.experiments.table import get_table
from replication import study


def result(run, average):
    metrics = dict.fromkeys(("distance", "orientation", "area", "vector_sum", "average"), average)
    others = {f"average_{side}x{side}": average / 2 for side in (5, 10, 14)}
    return {
        "run": json.loads(run.to_json()),
        "key": run.key,
        "metrics": {**metrics, **others},
        "history": [{"epoch": 1, "loss": 0.5, "seconds": 1.0, "metrics": {"average": average}}],
        "processor_seconds": 90.0,
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("FILE", "SWAP_FILE"):
        monkeypatch.setattr(study, name, tmp_path / f"{name}.jsonl")
    first = study.PLAN[0].runs()
    for run, average in zip(first[:2], (0.8, 0.9), strict=True):  # two seeds of the first row
        made = tmp_path / "runs" / run.name
        made.mkdir(parents=True)
        (made / RESULT).write_text(json.dumps(result(run, average)))
    stranger = tmp_path / "runs" / "stranger"
    stranger.mkdir()
    (stranger / RESULT).write_text(json.dumps({**result(first[0], 0.1), "key": "of no plan"}))
    return tmp_path


def test_finished_runs_are_collected_once(folder):
    assert study.collect(folder) == 2
    once = study.FILE.read_text()
    assert study.collect(folder) == 2
    assert study.FILE.read_text() == once
    assert [each["metrics"]["average"] for each in study.results().values()] == [0.8, 0.9]


def test_runs_after_a_swap_have_a_file_of_their_own(folder):
    run = study.SWAP[0].runs()[0]
    made = folder / "runs" / run.name
    made.mkdir()
    (made / RESULT).write_text(json.dumps(result(run, 0.9) | {"metrics": {"top1": 0.9}}))
    assert study.collect(folder) == 3
    assert list(study.swap_results()) == [run.key]
    cells = study.by_seed(get_table("swap"))
    assert cells["own table", "Oxford-IIIT"].tolist() == [90.0]
    assert study.plan().splitlines()[-1].startswith("| Pets: encoders that start from what a model knows | 30 | 1 |")


def test_the_plan_shows_what_is_done(folder):
    study.collect(folder)
    first, second = study.plan().splitlines()[2:4]
    assert first.endswith("| 65 | 2 | 1.5 |")
    assert second.endswith("| 0 | - |")
    line = study.scores().splitlines()[2]
    assert line.startswith("| No PE | 2 | 85.0 |")
    assert "| 42.5 |" in line


def test_parts_cover_the_tables_and_share_the_static_rows():
    runs = [run.key for part in study.PLAN for run in part.runs()]
    assert len(set(runs)) == len(study.planned()) < len(runs)
    rows = {run.encoder.name for run in study.planned().values()}
    assert {name for name, _ in study.ROWS.values()} == rows
