"""`loope segment`, run as a user would."""

import json
import subprocess
import sys

import numpy as np
import pytest
import timm
import torch
from PIL import EpsImagePlugin, Image
from typer.testing import CliRunner

import loope
from loope.cli import main as cli
from loope.cli import segment
from loope.core.text import printable
from loope.segmentation import SETR, predict
from loope.segmentation.labels import Labels
from tests.segmentation.tiny import ARGS, make, vit

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
    output = json.loads(run(photo, "--checkpoint", checkpoint, "--out", out, "--full", "--json"))
    expected = predict(model, normalised(photo))[0].argmax(0)
    with Image.open(output["files"]["mask"]) as mask:
        assert mask.mode == "P"
        assert torch.equal(torch.from_numpy(np.array(mask)).long(), expected)
        assert torch.equal(torch.from_numpy(np.array(mask.convert("RGB"))), LABELS.paint(expected))
    with Image.open(output["files"]["overlay"]) as overlay:
        mixed = (np.array(Image.open(photo)).astype(float) + LABELS.paint(expected).numpy()) / 2
        assert np.abs(np.array(overlay) - mixed).max() <= 0.5
    with Image.open(output["files"]["legend"]) as legend:
        assert legend.width > 100
    assert {path.name for path in out.iterdir()} == {f"street-{kind}.png" for kind in ("mask", "overlay", "legend")}
    assert output["size"] == [64, 96]
    shares = {each["name"]: each["share"] for each in output["classes"]}
    assert shares == {name: (expected == kind).double().mean().item() for kind, name in enumerate(LABELS.names)}
    assert [each["share"] for each in output["classes"]] == sorted(shares.values(), reverse=True)


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


def test_the_classes_are_listed(checkpoint, photo, tmp_path):
    shown = run(photo, "--checkpoint", checkpoint, "--out", tmp_path)
    assert any(name in shown for name in LABELS.names)
    assert "street-mask.png" in shown.replace("\n", "")


def test_photographs_that_lie_on_their_side_are_turned(checkpoint, photo, tmp_path):
    turned = Image.open(photo).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.png", exif=exif)
    output = json.loads(run(tmp_path / "turned.png", "--checkpoint", checkpoint, "--out", tmp_path, "--json"))
    assert output["size"] == [64, 96]


HOSTILE = (
    *("[/b]", "\x1b[2J\x1b]0;owned\x07", "[red]red[/red]", "$\\frac{", "_hidden", "a\nb"),
    *("\u202egnirts", "\\", "[", "\x9b31m", "[link=http://a]b[/link]"),
)


def test_names_from_files_and_paths_are_shown_as_text(checkpoint, photo, tmp_path, monkeypatch, model):
    monkeypatch.setattr(model, "labels", Labels("[bold]\x1b[31m", HOSTILE, ((1, 2, 3),) * len(HOSTILE)))
    monkeypatch.setattr(segment, "_model", lambda path: model)
    every = torch.arange(64 * 96).view(64, 96) % len(HOSTILE)
    monkeypatch.setattr(segment, "_classes", lambda *_: every)
    out = tmp_path / "[red]\x1b[2Jout[/red]"
    output = run(photo, "--checkpoint", checkpoint, "--out", out)
    assert not any(letter in output for letter in "\x1b\x07\x9b\u202e")
    assert all(printable(name) in output for name in HOSTILE)
    assert "[red]\\x1b[2Jout[/red]" in output.replace("\n", "")
    names = [
        each["name"] for each in json.loads(run(photo, "--checkpoint", checkpoint, "--out", out, "--json"))["classes"]
    ]
    assert sorted(names) == sorted(HOSTILE)  # for scripts, as they are


def test_errors_show_names_as_text(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["loope", "segment", "\x1b[2J[/b].jpg", "--checkpoint", "m.safetensors"])
    with pytest.raises(SystemExit):
        cli.main()
    output = capsys.readouterr().err
    assert "\\x1b[2J[/b].jpg" in output
    assert "\x1b[2J" not in output


def test_scores_that_are_no_numbers_are_refused(model, photo, tmp_path):
    with torch.no_grad():
        model.decoder.classify.weight.fill_(3e38)
    path = loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    assert "not finite" in fails(photo, "--checkpoint", path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((1, 2_000_000), ()),  # 32x64,000,000, to fit the window
        ((8_000, 8_000), ()),  # as a file
        ((1_000, 1_000), ("--full", "--scale", 10)),
    ],
)
def test_images_that_would_take_too_much_memory(size, options, checkpoint, tmp_path):
    Image.new("1", size[::-1]).save(tmp_path / "large.png")
    assert (tmp_path / "large.png").stat().st_size < 100_000
    assert "50,000,000" in fails(tmp_path / "large.png", "--checkpoint", checkpoint, *options)


def test_many_classes_at_once_take_memory_too(tmp_path):
    made = SETR(vit((32, 48), depth=1), 255)
    loope.attach(made, "gilbert")
    path = loope.save(made, tmp_path / "m.safetensors", model_args={**ARGS, "depth": 1})
    Image.new("1", (3000, 3000)).save(tmp_path / "large.png")
    assert "with 255 classes, up to 4,210,752" in fails(tmp_path / "large.png", "--checkpoint", path, "--full")


def test_labels_have_names_of_a_sensible_length():
    for wrong in ({"names": ("a" * 201,)}, {"name": "a" * 10**6}, {"names": (3,)}):
        with pytest.raises(loope.LoopeError, match="up to 200 letters"):
            Labels(**{"name": "a", "names": ("b",), "colours": ((0, 0, 0),), **wrong})
    with pytest.raises(loope.LoopeError, match="three whole numbers"):
        Labels("a", ("b",), ((0.5, 0, 0),))


def test_an_eps_file_with_another_name_starts_no_program(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started a program"))
    monkeypatch.setattr(subprocess, "check_call", lambda *_, **__: pytest.fail("started a program"))
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", "gs")
    (tmp_path / "a.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    )
    assert "cannot be read as an image" in fails(tmp_path / "a.jpg", "--checkpoint", checkpoint)


def test_what_goes_wrong_is_said(checkpoint, photo, tmp_path, monkeypatch, capsys):
    assert "No such image" in fails(tmp_path / "none.jpg", "--checkpoint", checkpoint)
    (tmp_path / "text.jpg").write_text("hello")
    assert "cannot be read as an image" in fails(tmp_path / "text.jpg", "--checkpoint", checkpoint)
    assert "There is no file" in fails(photo, "--checkpoint", tmp_path / "none.safetensors")
    classifier = timm.create_model("vit_tiny_patch16_224", depth=1)
    loope.attach(classifier, "gilbert")
    other = loope.save(classifier, tmp_path / "c.safetensors", model_args={"depth": 1})
    assert "holds a VisionTransformer" in fails(photo, "--checkpoint", other)
    grey = SETR(vit(in_chans=1), 3)
    loope.attach(grey, "gilbert")
    loope.save(grey, tmp_path / "g.safetensors", model_args=ARGS)
    assert "images of 1 channels" in fails(photo, "--checkpoint", tmp_path / "g.safetensors")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(sys, "argv", ["loope", "segment", str(photo), "--checkpoint", str(other)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("Error: ")
