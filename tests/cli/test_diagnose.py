"""`loope audit` and `loope diagnose`, run as a user would, with a tiny timm model."""

import json

import numpy
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import loope
from loope.cli import main as cli
from loope.lab.reports.diagnosis import HEAD

MODEL = "test_vit"  # 160 pixels, 6 blocks, width 64
runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture(autouse=True)
def weights(tmp_path, monkeypatch):
    torch.manual_seed(0)
    save_file(timm.create_model(MODEL).state_dict(), tmp_path / f"{MODEL}.safetensors")
    monkeypatch.setenv("LOOPE_WEIGHTS", str(tmp_path))


@pytest.fixture
def photos(tmp_path):
    rng = numpy.random.default_rng(0)
    for number in range(6):
        (tmp_path / "photos").mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (40, 50, 3), dtype=numpy.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path / "photos"


def test_an_audit_of_a_model_and_of_a_file(tmp_path):
    lines = runner.invoke(cli.app, ["audit", MODEL]).stdout.splitlines()
    assert str(loope.audit(timm.create_model(MODEL))).splitlines() == lines
    done = runner.invoke(cli.app, ["audit", MODEL, "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    assert found["ok"] and not found["findings"] and len(found["passed"]) >= 5  # noqa: PT018
    model = loope.attach(timm.create_model(MODEL), "rope_axial")
    loope.save(model, tmp_path / "rotary.safetensors")
    done = runner.invoke(cli.app, ["audit", str(tmp_path / "rotary.safetensors")])
    assert done.exit_code == 0
    assert "0 findings" in done.stdout


def test_a_finding_is_an_exit_code(monkeypatch):
    made = timm.create_model(MODEL)
    made.patch_embed.register_forward_hook(lambda module, args, tokens: tokens + tokens.mean(0))
    monkeypatch.setattr("loope.cli.diagnose._model", lambda name: made)
    done = runner.invoke(cli.app, ["audit", MODEL])
    assert done.exit_code == 1
    assert "seen:" in done.stdout


def test_a_diagnosis_prints_every_layer_and_writes_a_page(photos, tmp_path):
    page = tmp_path / "report.html"
    done = runner.invoke(cli.app, ["diagnose", MODEL, "--images", str(photos), "--to", str(page)])
    assert done.exit_code == 0, done.output
    for number in range(1, 7):
        assert f"block {number}" in done.stdout
    assert all(each.split(",")[0] in page.read_text() for each in HEAD)
    assert page.read_text().count("data:image/png") == 3


def test_a_diagnosis_of_an_encoder_as_json(photos):
    words = ["diagnose", MODEL, "--images", str(photos), "--encoder", "sincos2d", "--most", "3", "--json"]
    done = runner.invoke(cli.app, words)
    found = json.loads(done.stdout)
    assert (found["encoder"], found["images"], found["grid"]) == ("sincos2d", 3, [10, 10])
    assert len(found["position_share"]) == len(found["layers"]) == 7
    assert len(found["shift_outputs"]) == len(found["shift_cells"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["no_such_model"], "no_such_model"),
        ([MODEL, "--to", "report.txt"], "report.html"),
        ([MODEL, "--option", "a=1"], "--encoder"),
        ([MODEL, "--encoder", "rope_axial"], "rope_axial"),
    ],
)
def test_bad_input_is_named(words, named, photos):
    done = runner.invoke(cli.app, ["diagnose", *words, "--images", str(photos)])
    assert done.exit_code != 0
    assert named in str(done.exception)
