"""`loope swap`, run as a user would, with a tiny timm model whose weights lie in LOOPE_WEIGHTS."""

import json
import os
import signal

import numpy
import pytest
import timm
import torch
import typer.main
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import loope
from loope import LoopeError
from loope.cli import main as cli
from loope.lab.data.classification import Files, Images, ImageSource
from loope.lab.data.folders import read_labels, read_unlabelled
from loope.lab.data.loader import BadImageError
from loope.lab.data.transforms import ClassificationTransform
from loope.lab.engine.schedule import learning_rate
from loope.lab.experiments.swap import WRITING, Comparison, Swap, Swapped, SwapRun, split
from loope.lab.experiments.timm_models import preparation
from loope.surgery.transfer import HandOver

MODEL = "test_vit"  # 160 pixels, 6 blocks, width 64
COUNT = 21
runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A folder with the weights of the model; its own table matters for the answers."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    model = timm.create_model(MODEL)
    smooth = torch.nn.functional.interpolate(torch.randn(1, 64, 3, 3), (10, 10), mode="bicubic")
    with torch.no_grad():
        model.pos_embed[:, 1:] = smooth.flatten(2).mT / 2
        model.head.weight.normal_(std=0.1)
    save_file(model.state_dict(), folder / f"{MODEL}.safetensors")
    return folder


@pytest.fixture(autouse=True)
def local(weights, monkeypatch):
    monkeypatch.setenv("LOOPE_WEIGHTS", str(weights))
    monkeypatch.setattr("loope.lab.engine.tracking.chosen", lambda trackers: [])


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = numpy.random.default_rng(0)
    for number in range(COUNT):
        file = folder / ("deep/er" if number % 2 else "") / f"an image {number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 256, (5, 5, 3), dtype=numpy.uint8)
        Image.fromarray(coarse).resize((170, 160)).save(file)
    return folder


def swap(*arguments, **options):
    """Run the command without catching what a user would see as an error."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return runner.invoke(cli.app, ["swap", *map(str, arguments), *words], catch_exceptions=False)


def swapped(photos, to, encoder, *more, **options):
    """Return the command's JSON."""
    options = {"steps": 6, "batch_size": 4, **options}
    shown = swap(MODEL, encoder, "--json", *more, images=photos, to=to, **options)
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def prepared(photos, seed=0):
    """The held-out images and their names."""
    files = read_unlabelled(photos)
    held = split(files.names, seed, 0)[1]
    transform = ClassificationTransform(preparation(MODEL))
    return torch.stack([transform(Files(photos, held).read(n), 0)[0] for n in range(len(held))]), held


def original(weights):
    return timm.create_model(
        MODEL, pretrained=True, pretrained_cfg_overlay={"file": str(weights / f"{MODEL}.safetensors")}
    ).eval()


@pytest.mark.parametrize(("encoder", "frozen"), [("rope_mixed", False), ("sincos2d", False), ("rope_mixed", True)])
def test_the_file_holds_the_model_of_the_numbers(encoder, frozen, photos, weights, tmp_path):
    to = tmp_path / "swapped.safetensors"
    told = swapped(photos, to, encoder, *["--freeze-backbone"] * frozen)
    assert [each.name for each in tmp_path.iterdir()] == [to.name]  # nothing else is left
    assert (told["held_out"], told["train_images"], told["labelled"]) == (2, 19, 0)
    assert told["original_top1"] is told["before"]["top1"] is told["after"]["top1"] is None
    model, teacher = loope.load(to), original(weights)
    assert not loope.report(model).keep_own
    found = HandOver(model, teacher=teacher).agreement([prepared(photos)[0]])
    assert told["after"]["agreement"] == found.answers
    assert told["after"]["tokens"] == pytest.approx(found.tokens, abs=1e-5)
    assert told["after"] != told["before"]
    same = torch.equal(model.blocks[0].attn.qkv.weight, teacher.blocks[0].attn.qkv.weight)
    assert same == frozen


def test_against_a_bare_loop(photos, weights, tmp_path):
    """Two passes over 19 images, four a step: the same weights as from a few lines of PyTorch."""
    told = swapped(photos, tmp_path / "m.safetensors", "rope_axial", steps=8, lr=1e-4)
    chosen = Swap(model=MODEL, encoder="rope_axial", steps=8, batch_size=4, lr=1e-4)
    model = loope.attach(original(weights), "rope_axial", init="own").train()
    work = HandOver(model)
    names = split(read_unlabelled(photos).names, 0, 32)[0]
    images = Images(Files(photos, names), [0] * 19, ["train"] * 19, ["any"])
    source = ImageSource(images, 4, preparation(MODEL), train=True, augment="flip", workers=0)
    batches = [batch for epoch in range(2) for batch, _ in source.batches(epoch)]
    work.prepare(batches[0])
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0, betas=(0.9, 0.95))
    for step in range(8):
        optimizer.param_groups[0]["lr"] = learning_rate(chosen.recipe, step, 8 // chosen.epochs)
        work.set_progress((step + 1) / 8)
        optimizer.zero_grad()
        work.loss(batches[step]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    work.finish()
    written = loope.load(tmp_path / "m.safetensors").state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(tensor.float(), written[name].float(), atol=1e-5), name
    assert told["after"]["tokens"] > told["before"]["tokens"]


@pytest.mark.parametrize(("encoder", "strength"), [("sincos2d", 1.0), ("rope_mixed", 0.0)])
def test_no_steps_attach_and_fit(encoder, strength, photos, weights, tmp_path):
    told = swapped(photos, tmp_path / "m.safetensors", encoder, steps=0)
    assert told["strength"] == strength
    assert [each.name for each in tmp_path.iterdir()] == ["m.safetensors"]
    model, teacher = loope.load(tmp_path / "m.safetensors").eval(), original(weights)
    images = prepared(photos)[0]
    with torch.no_grad():
        given, wanted = model(images), teacher(images)
    expected = loope.attach(original(weights), encoder, init="own").eval()
    if strength:
        assert torch.allclose(given, expected(images), atol=1e-4)
        assert told["before"] == told["after"]
    else:
        assert torch.allclose(given, wanted, atol=1e-4)
        assert told["after"]["agreement"] == 1.0
        assert told["before"]["tokens"] < told["after"]["tokens"]


def test_options_of_the_encoder_and_seed(photos, tmp_path):
    told = {}
    for name, options in {"a": {"option": "temperature=50"}, "b": {}, "c": {"seed": 5}}.items():
        told[name] = swapped(photos, tmp_path / f"{name}.safetensors", "rope_axial", steps=0, **options)
    assert told["a"]["before"] != told["b"]["before"] != told["c"]["before"]
    assert loope.load(tmp_path / "a.safetensors").loope.spec["encoders"] == [("rope_axial", {"temperature": 50})]


def test_defaults_are_those_of_the_library():
    options = {each.name: each.default for each in typer.main.get_command(cli.app).commands["swap"].params}
    library, names = Swap(model=MODEL, encoder="none"), ("steps", "batch_size", "lr", "precision", "seed")
    assert [options[name] for name in names] == [getattr(library, name) for name in names]


def test_precision_of_training(photos, tmp_path):
    """A first step in bfloat16 differs by its rounding from one in float32; weights stay in float32."""
    weights = {}
    for precision in ("float32", "bfloat16"):
        to = tmp_path / f"{precision}.safetensors"
        swapped(photos, to, "rope_axial", steps=1, precision=precision)
        weights[precision] = loope.load(to).blocks[0].attn.qkv.weight
        assert weights[precision].dtype == torch.float32
    first, second = weights.values()
    assert not torch.equal(first, second)
    torch.testing.assert_close(first, second, atol=2e-3, rtol=0)


@pytest.mark.parametrize(("agreement", "called_out"), [(0.2, True), (0.9, False)])
def test_a_model_that_lost_much_is_called_out(agreement, called_out, photos, tmp_path, monkeypatch):
    found = Comparison(agreement, 0.5, None)
    made = Swapped(None, found, found, strength=1.0, train_images=19, held_out=2, labelled=0)
    monkeypatch.setattr(SwapRun, "execute", lambda self, progress: made)
    shown = swap(MODEL, "rope_axial", images=photos, to=tmp_path / "m.safetensors", steps=1, batch_size=4)
    assert ("--steps" in shown.output) is called_out


def test_top1_of_labelled_images(photos, weights, tmp_path):
    images, names = prepared(photos)
    with torch.no_grad():
        answers = original(weights)(images).argmax(-1).tolist()
    right = [f"{names[0]}\t{answers[0]}", f"{names[1]} {(answers[1] + 1) % 1000}", ""]
    other = next(name for name in read_unlabelled(photos).names if name not in names)
    file = tmp_path / "labels.txt"
    file.write_text("\n".join([*right, f"{other} 3"]))
    told = swapped(photos, tmp_path / "m.safetensors", "rope_mixed", steps=0, labels=file)
    assert (told["labelled"], told["original_top1"], told["after"]["top1"]) == (2, 0.5, 0.5)
    shown = swap(MODEL, "rope_mixed", images=photos, to=tmp_path / "again.safetensors", steps=0, labels=file)
    assert "top-1" in shown.output
    assert "50.0%" in shown.output


def test_an_interrupted_swap_goes_on_to_the_same_file(photos, tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    # A slow fade, so that it is interrupted while strengths change.
    monkeypatch.setitem(HandOver.__init__.__kwdefaults__, "fade", 0.5)
    told = swapped(photos, whole, "rope_mixed")
    shares, loss = [], HandOver.loss

    def interrupting(self, images):
        shares.append(self.attachment.strengths)
        if len(shares) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return loss(self, images)

    monkeypatch.setattr(HandOver, "loss", interrupting)
    options = {"images": photos, "to": parts, "steps": 6, "batch_size": 4}
    stopped = swap(MODEL, "rope_mixed", **options)
    assert stopped.exit_code == 130
    assert not parts.exists()
    assert (tmp_path / "parts.safetensors.run").is_dir()
    with pytest.raises(LoopeError, match=r"lr was 0\.001 and is 0\.01"):
        swap(MODEL, "rope_mixed", **{**options, "lr": 0.01})
    with pytest.raises(LoopeError, match="encoder was rope_mixed and is rope_axial"):
        swap(MODEL, "rope_axial", **options)
    parts.write_bytes(b"put there by someone else")
    with pytest.raises(LoopeError, match=r"parts\.safetensors exists"):
        swap(MODEL, "rope_mixed", **options)
    assert parts.read_bytes() == b"put there by someone else"
    (tmp_path / "parts.safetensors.run" / WRITING).touch()  # as a run leaves it that stopped while it wrote the file
    again = swapped(photos, parts, "rope_mixed")
    assert len(shares) == 6
    assert [strength for strength, _ in shares] == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1])
    assert {**again, "file": ""} == {**told, "file": ""}
    assert parts.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "parts.safetensors.run").exists()


def bad(photos, tmp_path):
    """Wrong arguments, and what the message names."""
    broken, empty = tmp_path / "broken", tmp_path / "empty"
    for folder in (broken, empty):
        folder.mkdir()
    for file in photos.glob("*.png"):
        (broken / file.name).symlink_to(file)
    (broken / "torn.png").write_bytes(next(photos.glob("*.png")).read_bytes()[:90])
    (tmp_path / "strange.txt").write_text("nowhere.png 3\n")
    (tmp_path / "words.txt").write_text("an image 0.png cat\n")
    (tmp_path / "large.txt").write_text("an image 0.png 1000\n")
    (tmp_path / "twice.txt").write_text("an image 0.png 1\nan image 0.png 2\n")
    (tmp_path / "older.safetensors").write_bytes(b"an hour of training")
    (tmp_path / "taken.safetensors.run").mkdir()
    (tmp_path / "taken.safetensors.run" / "diary.txt").touch()
    return {
        "no such folder": ({"images": tmp_path / "nowhere"}, "nowhere"),
        "empty folder": ({"images": empty}, "empty"),
        "corrupt image": ({"images": broken}, r"torn\.png"),
        "model": ({"model": "vit_tony"}, "vit_tony"),
        "no weights": ({"model": "test_vit2"}, "test_vit2"),
        "no transformer": ({"model": "resnet18"}, "ResNet"),
        "encoder": ({"encoder": "roap"}, "roap"),
        "option": ({"option": "colour=red"}, "colour"),
        "argument of attach": ({"option": "init=own"}, "init"),
        "malformed option": ({"option": "temperature"}, "NAME=VALUE"),
        "bad value": ({"option": "temperature=hot"}, "temperature.*hot"),
        "ending": ({"to": tmp_path / "m.pt"}, r"\.safetensors"),
        "missing folder": ({"to": tmp_path / "none" / "m.safetensors"}, "none"),
        "file exists": ({"to": tmp_path / "older.safetensors"}, r"older\.safetensors exists"),
        "folder in use": ({"to": tmp_path / "taken.safetensors"}, r"taken\.safetensors\.run"),
        "unknown image": ({"labels": tmp_path / "strange.txt"}, r"nowhere\.png"),
        "no index": ({"labels": tmp_path / "words.txt"}, "cat"),
        "no such class": ({"labels": tmp_path / "large.txt"}, "999.*1000"),
        "two classes": ({"labels": tmp_path / "twice.txt"}, "Line 2"),
        "no labels": ({"labels": tmp_path / "none.txt"}, r"none\.txt"),
        "batch": ({"batch_size": 20}, "20"),
        "learning rate": ({"lr": 0}, "lr"),
        "precision": ({"precision": "float8"}, "float8"),
        "precision of GPUs": ({"precision": "float16"}, "float16"),
    }


def test_bad_input_is_refused_before_training_and_nothing_is_written(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("loope.core.hub.answers", lambda address: False)
    cases = bad(photos, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for what, (change, named) in cases.items():
        options = {"images": photos, "to": tmp_path / "m.safetensors", "batch_size": 4, **change}
        model, encoder = options.pop("model", MODEL), options.pop("encoder", "rope_mixed")
        with pytest.raises(LoopeError, match=rf"(?s){named}"):
            swap(model, encoder, **options)
        assert sorted(tmp_path.rglob("*")) == before, what


def test_a_corrupt_image_has_its_own_error(photos, tmp_path):
    (tmp_path / "torn.png").write_bytes(next(photos.glob("*.png")).read_bytes()[:90])
    with pytest.raises(BadImageError, match=r"torn\.png") as caught:
        read_unlabelled(tmp_path).check()
    assert "--skip-bad-images" not in str(caught.value)  # this command has no such option


def test_labels_may_have_spaces_in_their_paths(tmp_path):
    files = Files(tmp_path, ["a b/c d.png", "e.png"])
    (tmp_path / "labels").write_text("a b/c d.png  7\n\ne.png\t12\n", "utf-8-sig")
    assert read_labels(tmp_path / "labels", files) == {"a b/c d.png": 7, "e.png": 12}
