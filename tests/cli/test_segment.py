"""`loope segment`, run as a user would."""

import json
import sys

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from typer.testing import CliRunner

import loope
from loope.cli import main as cli
from loope.core.labels import Labels
from loope.models import SETR, predict
from tests.models.tiny import ARGS, make, vit

runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"})
LABELS = Labels("toy", ("red", "green", "blue"), ((200, 0, 0), (0, 200, 0), (0, 0, 200)))


@pytest.fixture
def model():
    made = make(SETR, "pup", vit((32, 48)), classes=LABELS)
    loope.attach(made, "loope")
    return made


@pytest.fixture
def checkpoint(model, tmp_path):
    return loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "street.png")
    return tmp_path / "street.png"


def run(*arguments):
    shown = runner.invoke(cli.app, ["segment", *map(str, arguments)])
    assert shown.exit_code == 0, (shown.output, shown.exception)
    return shown.output


def fails(*arguments) -> str:
    with pytest.raises(loope.LoopeError) as caught:
        runner.invoke(cli.app, ["segment", *map(str, arguments)], catch_exceptions=False)
    return str(caught.value)


def normalised(photo) -> torch.Tensor:
    pixels = torch.from_numpy(np.array(Image.open(photo).convert("RGB"))).permute(2, 0, 1)[None]
    return (pixels / 255 - 0.5) / 0.5  # vit_tiny_patch16_224's own


def test_mask_overlay_and_legend(model, checkpoint, photo, tmp_path):
    out = tmp_path / "out"
    told = json.loads(run(photo, "--checkpoint", checkpoint, "--out", out, "--full", "--json"))
    expected = predict(model, normalised(photo))[0].argmax(0)
    with Image.open(told["files"]["mask"]) as mask:
        assert mask.mode == "P"
        assert torch.equal(torch.from_numpy(np.array(mask)).long(), expected)
        assert torch.equal(torch.from_numpy(np.array(mask.convert("RGB"))), LABELS.paint(expected))
    with Image.open(told["files"]["overlay"]) as overlay:
        mixed = (np.array(Image.open(photo)).astype(float) + LABELS.paint(expected).numpy()) / 2
        assert np.abs(np.array(overlay) - mixed).max() <= 0.5
    with Image.open(told["files"]["legend"]) as legend:
        assert legend.width > 100
    assert {path.name for path in out.iterdir()} == {f"street-{kind}.png" for kind in ("mask", "overlay", "legend")}
    assert told["size"] == [64, 96]
    shares = {each["name"]: each["share"] for each in told["classes"]}
    assert shares == {name: (expected == kind).double().mean().item() for kind, name in enumerate(LABELS.names)}
    assert [each["share"] for each in told["classes"]] == sorted(shares.values(), reverse=True)


def test_images_are_fitted_to_the_model(model, checkpoint, photo, tmp_path):
    run(photo, "--checkpoint", checkpoint, "--out", tmp_path)
    small = torch.nn.functional.interpolate(normalised(photo), (32, 48), mode="bilinear", antialias=True)
    expected = torch.nn.functional.interpolate(predict(model, small), (64, 96), mode="bilinear")[0].argmax(0)
    with Image.open(tmp_path / "street-mask.png") as mask:
        assert torch.equal(torch.from_numpy(np.array(mask)).long(), expected)


def test_scales_and_mirror_images(model, checkpoint, photo, tmp_path):
    run(photo, "--checkpoint", checkpoint, "--out", tmp_path, "--full", "--scale", 0.5, "--scale", 1.5, "--flip")
    expected = predict(model, normalised(photo), scales=(0.5, 1.5), flip=True)[0].argmax(0)
    with Image.open(tmp_path / "street-mask.png") as mask:
        assert torch.equal(torch.from_numpy(np.array(mask)).long(), expected)


def test_the_classes_are_told_in_words(checkpoint, photo, tmp_path):
    shown = run(photo, "--checkpoint", checkpoint, "--out", tmp_path)
    assert any(name in shown for name in LABELS.names)
    assert "street-mask.png" in shown.replace("\n", "")


def test_photographs_that_lie_on_their_side_are_turned(checkpoint, photo, tmp_path):
    turned = Image.open(photo).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.png", exif=exif)
    told = json.loads(run(tmp_path / "turned.png", "--checkpoint", checkpoint, "--out", tmp_path, "--json"))
    assert told["size"] == [64, 96]


def test_what_goes_wrong_is_said(checkpoint, photo, tmp_path, monkeypatch, capsys):
    assert "There is no image" in fails(tmp_path / "none.jpg", "--checkpoint", checkpoint)
    (tmp_path / "text.jpg").write_text("hello")
    assert "cannot be read as an image" in fails(tmp_path / "text.jpg", "--checkpoint", checkpoint)
    assert "There is no file" in fails(photo, "--checkpoint", tmp_path / "none.safetensors")
    classifier = timm.create_model("vit_tiny_patch16_224", depth=1)
    loope.attach(classifier, "gilbert")
    other = loope.save(classifier, tmp_path / "c.safetensors", model_args={"depth": 1})
    assert "holds a VisionTransformer, which does not segment" in fails(photo, "--checkpoint", other)
    grey = SETR(vit(in_chans=1), 3)
    loope.attach(grey, "gilbert")
    loope.save(grey, tmp_path / "g.safetensors", model_args=ARGS)
    assert "is for images of 1 channels" in fails(photo, "--checkpoint", tmp_path / "g.safetensors")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(sys, "argv", ["loope", "segment", str(photo), "--checkpoint", str(other)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("Error: ")
