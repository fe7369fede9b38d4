"""Files that hold a segmentation model and build it again."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import loope
from loope.segmentation import SETR, Segmenter
from loope.segmentation.labels import Labels
from loope.surgery.adapters.base import build_model
from tests.segmentation.tiny import ARGS, DECODERS, images, make, vit

LABELS = Labels("traffic", ("road", "car", "sky"), ((128, 64, 128), (0, 0, 142), (70, 130, 180)))
every_decoder = pytest.mark.parametrize(("cls", "decoder"), DECODERS)


@torch.no_grad()
@every_decoder
def test_one_file_rebuilds_model_encoder_and_labels(cls, decoder, tmp_path):
    model = make(cls, decoder, classes=LABELS, **({"auxiliary": True} if cls is SETR else {}))
    own = model(images())
    loope.attach(model, ["loope", ("rope_mixed", {"temperature": 20.0})], prefix="learned")
    loope.resize(model, (48, 32))
    path = loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    loaded = loope.load(path)
    assert type(loaded) is cls
    assert not loaded.training
    assert loaded.labels == LABELS
    assert loaded.options == model.options
    assert torch.equal(loaded(images((48, 32))), model(images((48, 32))))
    loope.resize(loaded, (32, 32))
    loope.detach(loaded)
    assert torch.equal(loaded(images()), own)


def test_forgotten_arguments_of_the_backbone_are_named(tmp_path):
    model = make(SETR, "naive")
    loope.attach(model, "gilbert")
    with pytest.raises(
        loope.LoopeError, match=r"could not be built again .*pass what it was created with as model_args"
    ):
        loope.save(model, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_program_that_has_not_heard_of_our_models_loads_them(tmp_path):
    model = make(Segmenter, "mask")
    loope.attach(model, "loope")
    loope.HubModel(model, ARGS).save_pretrained(tmp_path)
    program = (
        "import sys, loope; assert 'loope.segmentation' not in sys.modules\n"
        "from loope.surgery.hub import HubModel\n"
        "print(type(HubModel.from_pretrained(sys.argv[1]).model).__name__)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert shown.stdout == "Segmenter\n"


def test_freezing(tmp_path):
    model = make(Segmenter, "linear")
    loope.attach(model, "sincos2d")
    with torch.no_grad():
        expected = model(images())
        loope.bake(model, (32, 32))
        torch.testing.assert_close(model(images()), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"class": "SegmentationModel"},
        {"class": "print"},
        {"library": "os"},
        {"library": "transformers"},
        {"options": {"decoder": "naive", "nonsense": 1}},
        {"options": {"decoder": "nonsense"}},
        {"labels": {"name": "x", "names": [], "colours": []}},
        {"labels": {}},
        {"backbone": {"library": "transformers", "class": "logging", "config": {}}},
        {"backbone": {"library": "timm", "name": "local-dir:/etc", "args": {}}},
        {"backbone": {"library": "timm", "name": "vit_tiny_patch16_224", "args": {"pretrained": True}}},
    ],
)
def test_recipes_that_are_damaged_or_hostile(change, tmp_path):
    model = SETR(vit(), 3)
    loope.attach(model, "gilbert")
    path = loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    with safe_open(path, "pt") as file:
        recipe, state = json.loads(file.metadata()["loope"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    recipe["model"] |= change
    save_file(state, path, metadata={"loope": json.dumps(recipe)})
    with pytest.raises(loope.LoopeError):
        loope.load(path)


def test_only_known_libraries_are_asked():
    with pytest.raises(loope.LoopeError, match="Unknown library 'os'; use one of: "):
        build_model({"library": "os"})


def test_custom_subclasses_cannot_be_built_from_a_file(tmp_path):
    class Mine(SETR):
        pass

    model = Mine(vit(), 3)
    loope.attach(model, "gilbert")
    with pytest.raises(loope.LoopeError, match="got Mine"):
        loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
