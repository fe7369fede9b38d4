"""What is missing for runs is found before they start, each thing once."""

import pytest

from loope.core import hub, packages
from loope.lab.experiments import classification, preflight
from loope.lab.experiments.preflight import obstacles
from loope.lab.experiments.presets import measured
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.table import get_table, table_names

HERE = Settings(trackers=())


def runs_of(table, preset, *only):
    return [entry.run for entry in get_table(table).select(preset, *only)]


@pytest.mark.parametrize("table", table_names())
def test_smoke_runs_need_nothing_from_outside(table, monkeypatch):
    monkeypatch.delenv("LOOPE_DATA", raising=False)
    monkeypatch.delenv("LOOPE_WEIGHTS", raising=False)
    assert obstacles(runs_of(table, "smoke"), HERE) == {}


def test_data_is_looked_for_once(monkeypatch):
    asked = []
    load = classification.load_images
    monkeypatch.setattr(
        classification, "load_images", lambda name, *args, **more: asked.append(name) or load(name, *args, **more)
    )
    monkeypatch.delenv("LOOPE_DATA", raising=False)
    runs = runs_of("table1", "laptop", "Oxford*")
    found = obstacles(runs, HERE)
    assert set(found) == set(runs)
    assert len(set(found.values())) == 1
    assert asked == ["pets"]


@pytest.mark.parametrize("name", ["camvid", "cityscapes"])
def test_data_of_segmentation(name, monkeypatch, tmp_path):
    runs = [
        run
        for table in table_names()
        for preset in ("laptop", "paper")
        for run in runs_of(table, preset)
        if run.data.name == name
    ]
    assert runs
    assert all(str(tmp_path) in cause for cause in obstacles(runs[:2], Settings(data=str(tmp_path))).values())


def test_weights_are_looked_for_once(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(hub, "missing_weights", lambda name: asked.append(name) or "nobody has them")
    monkeypatch.setattr(preflight, "find_data", lambda run, settings: None)
    monkeypatch.setenv("LOOPE_WEIGHTS", str(tmp_path))
    runs = [run for run in runs_of("table1", "paper", "Oxford*") if run.model.weights == "pretrained"]
    found = obstacles(runs, HERE)
    assert set(found) == set(runs)
    assert sorted(asked) == sorted({run.model.name for run in runs})
    name = runs[0].model.name
    assert f"{name}.safetensors" in found[runs[0]]
    (tmp_path / f"{name}.safetensors").touch()
    assert runs[0] not in obstacles(runs, HERE)


def test_a_model_that_was_handed_over_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight, "find_data", lambda run, settings: None)
    monkeypatch.setenv("LOOPE_WEIGHTS", str(tmp_path))
    (run,) = runs_of("swap", "laptop", "RoPE mixed")
    assert "loope swap" in obstacles([run], HERE)[run]
    (tmp_path / f"{run.model.name}-rope_mixed.safetensors").touch()
    assert obstacles([run], HERE) == {}


def test_packages_and_trackers(monkeypatch):
    (trained, *_), untrained = runs_of("table4", "smoke"), measured("smoke", "gilbert")
    assert "'moon'" in obstacles([trained], Settings(trackers=("moon",)))[trained]
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == "accelerate" else object())
    found = obstacles([trained, untrained], HERE)
    assert set(found) == {trained, untrained}
    assert all("accelerate" in cause for cause in found.values())
