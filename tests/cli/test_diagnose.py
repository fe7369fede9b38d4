"""`loope audit` and `loope diagnose`, run as a user would, with a tiny timm model."""

import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import ViTConfig, ViTForImageClassification
from typer.testing import CliRunner

import loope
from loope import LoopeError
from loope.cli import main as cli
from loope.cli.diagnose import _some
from loope.lab.data.classification import Files
from loope.lab.data.transforms import Preparation
from loope.lab.experiments.any_model import open_model, preparation_of
from loope.lab.experiments.timm_models import preparation
from loope.lab.reports.diagnosis import HEAD
from tests.surgery.models import HF

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
    monkeypatch.setattr("loope.lab.experiments.any_model.open_model", lambda name, weights: made)
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


def test_a_file_of_save_is_prepared_as_its_timm_model(photos, tmp_path):
    model = loope.attach(timm.create_model(MODEL), "rope_axial")
    loope.resize(model, (96, 128))
    file = str(loope.save(model, tmp_path / "rotary.safetensors"))
    done = runner.invoke(cli.app, ["diagnose", file, "--images", str(photos), "--json"])
    found = json.loads(done.stdout)
    assert (found["model"], found["encoder"], found["grid"]) == (file, "rope_axial", [6, 8])
    assert preparation_of(file, model) == replace(preparation(MODEL), size=(96, 128))


@pytest.fixture
def folder(tmp_path):
    """A plain model of transformers."""
    torch.manual_seed(0)
    ViTForImageClassification(ViTConfig(**HF)).save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


def test_a_folder_of_transformers(folder, photos):
    done = runner.invoke(cli.app, ["audit", str(folder), "--json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["class"], found["ok"]) == (0, "ViTForImageClassification", True)
    done = runner.invoke(cli.app, ["diagnose", str(folder), "--images", str(photos), "--json"])
    found = json.loads(done.stdout)
    assert (found["encoder"], found["grid"], len(found["layers"])) == (None, [4, 4], 3)
    done = runner.invoke(cli.app, ["diagnose", str(folder), "--images", str(photos), "--encoder", "sincos2d", "--json"])
    assert json.loads(done.stdout)["encoder"] == "sincos2d"


def test_a_folder_has_its_weights_and_preprocessor(folder):
    made = open_model(str(folder))
    wanted = ViTForImageClassification.from_pretrained(folder).eval()
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(made(pixels).logits, wanted(pixels).logits)
    assert preparation_of(str(folder), made) == Preparation(size=(32, 32))
    about = folder / "preprocessor_config.json"
    about.write_text(json.dumps({"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3]}))
    found = preparation_of(str(folder), made)
    assert (found.mean, found.std, found.size) == ((0.1, 0.2, 0.3), (1, 2, 3), (32, 32))
    about.write_text("{")
    with pytest.raises(LoopeError, match=r"preprocessor_config\.json"):
        preparation_of(str(folder), made)


def test_files_and_folders_that_are_no_models(folder, tmp_path):
    with pytest.raises(LoopeError, match=r"loope\.save"):
        open_model(str(tmp_path / f"{MODEL}.safetensors"))  # weights alone
    with pytest.raises(LoopeError, match="nowhere"):
        open_model(str(tmp_path / "nowhere"))
    with pytest.raises(LoopeError, match=r"config\.json"):
        open_model(str(tmp_path))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    with pytest.raises(LoopeError, match="BertModel"):
        open_model(str(folder))
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 2**15}))
    with pytest.raises(LoopeError, match="larger than the file"):
        open_model(str(folder))


def test_the_table_fits_a_terminal_of_80_columns(photos):
    narrow = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})
    done = narrow.invoke(cli.app, ["diagnose", MODEL, "--images", str(photos)])
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for number in range(1, 7):  # a layer is one line, with its number of heads
        assert len([line for line in lines if f"block {number} " in line and " to " in line]) == 1
    assert "…" not in done.stdout


def test_images_are_taken_at_equal_steps():
    files = Files(Path(), [str(number) for number in range(10)])
    assert [len(_some(files, most).names) for most in (3, 9, 10, 11)] == [3, 9, 10, 10]
    assert list(_some(files, 4).names) == ["0", "2", "5", "7"]


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
