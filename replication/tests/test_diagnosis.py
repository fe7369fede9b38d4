"""The diagnosis of ViT-Tiny is kept once for each encoder, and shown; what is missing is said."""

import pytest
import torch

import loope
from loope.diagnostics.whole import diagnose
from replication import diagnosis
from tests.surgery.models import vit


@pytest.fixture
def file(monkeypatch, tmp_path):
    monkeypatch.setattr(diagnosis, "FILE", tmp_path / "diagnosis.jsonl")
    return diagnosis.FILE


def cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_energy_of_artefacts_is_found_in_corners_and_channels():
    maps = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
    maps[0, 0, 3, 2] = 3.0  # a corner
    maps[0, 1, 1, 4] = 4.0
    maps[1, 2, 0, 1] = 1.0
    inside, channel, share = diagnosis.artefacts(maps)
    assert inside.tolist() == [9 / 25, 1.0]
    assert channel.tolist() == [4, 1]
    assert share.tolist() == [16 / 25, 1.0]


def test_what_is_measured_is_shown_and_what_is_missing_is_said(file):
    torch.manual_seed(0)
    model, pixels = vit(), torch.randn(4, 3, 32, 32)
    found = diagnosis.summary(diagnose(model, [pixels]))
    for encoder in ("none", "own", "own"):
        diagnosis.keep(encoder, found)
    assert list(diagnosis.results()) == ["own", "none"]
    head, _, own, sincos2d, _, none = map(cells, diagnosis.TABLES["docs/results/vit-tiny.md", "share"]().splitlines())
    share = loope.position_share(model, pixels).share
    assert head == ["positions", "input", "1", "2"]
    assert own == ["own table", *(f"{value:.1%}" for value in share)]
    assert none[1:] == own[1:]
    assert sincos2d[1:] == ["not measured", "", ""]
    head, _, own, *_ = map(cells, diagnosis.TABLES["docs/results/vit-tiny.md", "distance"]().splitlines())
    assert (head[1:], len(own)) == (["1", "2"], 3)
    for mark in ("r2", "equivariance", "shift", "artefacts"):
        lines = diagnosis.TABLES["docs/results/vit-tiny.md", mark]().splitlines()
        assert len({len(cells(line)) for line in lines}) == 1
        assert "not measured" not in lines[2]
        assert set(cells(lines[3])[1:]) == {"not measured", ""}
    assert "4 photographs" in diagnosis.conditions()


def test_models_after_transfer_come_from_files(monkeypatch, tmp_path, capsys):
    attached = loope.attach(vit(), "none")
    monkeypatch.setattr(diagnosis, "original", vit)
    monkeypatch.setattr(diagnosis, "local_weights", lambda name: tmp_path / name if name.endswith("none") else None)
    monkeypatch.setattr(loope, "load", lambda path: attached if path.name.endswith("-none") else None, raising=False)
    made = dict(diagnosis.models())
    assert list(made) == ["own", "sincos2d", "none"]
    assert made["none"] is attached
    assert "rope_mixed" in capsys.readouterr().out
