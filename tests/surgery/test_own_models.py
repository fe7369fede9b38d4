"""Custom models, saved and loaded through their adapter."""

import json
import runpy
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import loope
from loope.surgery.adapters import base
from tests.surgery.models import predict

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.setattr(base, "_ADAPTERS", list(base._ADAPTERS))
    return runpy.run_path(str(EXAMPLE))


def rewrite(path, change):
    """Change the description in a file and keep its tensors."""
    with safe_open(path, "pt") as file:
        recipe, state = json.loads(file.metadata()["loope"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    change(recipe["model"])
    save_file(state, path, metadata={"loope": json.dumps(recipe)})


@pytest.mark.parametrize("keep_own", [False, True])
@pytest.mark.parametrize("encoder", ["loope", "rope_mixed", "peg"])
def test_a_model_with_its_own_adapter_is_saved_and_loaded(encoder, keep_own, example, tmp_path):
    model, pixels = example["SmallViT"](classes=7).eval(), torch.randn(2, 3, 32, 48)
    loope.attach(model, encoder, keep_own=keep_own)
    loope.resize(model, (32, 48))
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors"))
    assert type(loaded) is example["SmallViT"]
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))
    for each in (model, loaded):
        loope.detach(each)
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))


def test_files_name_the_adapter_that_builds_their_model(example, tmp_path, monkeypatch):
    path = loope.save(loope.attach(example["SmallViT"](), "gilbert"), tmp_path / "m.safetensors")
    monkeypatch.setattr(base, "_ADAPTERS", [each for each in base._ADAPTERS if each.__name__ != "SmallViTAdapter"])
    with pytest.raises(loope.LoopeError, match="SmallViTAdapter"):
        loope.load(path)


@pytest.mark.parametrize("change", [{"dim": 4800}, {"depth": 1000}, {"classes": 60_000}, {"depth": 1}, {"nonsense": 1}])
def test_a_file_that_describes_another_model_than_it_holds_is_refused_on_meta(change, example, tmp_path, monkeypatch):
    path = loope.save(loope.attach(example["SmallViT"](), "gilbert"), tmp_path / "m.safetensors")
    rewrite(path, lambda about: about["args"].update(change))
    places, adapter = [], base._ADAPTERS[0]
    build = adapter.build
    monkeypatch.setattr(
        adapter, "build", classmethod(lambda cls, about: places.append(torch.empty(0).device.type) or build(about))
    )
    with pytest.raises(loope.LoopeError):
        loope.load(path)
    assert set(places) <= {"meta"}


def test_adapters_without_describe_or_build_cannot_save(example, tmp_path):
    class Silent(example["SmallViTAdapter"]):
        library = ""

    class Mute(Silent):
        describe = loope.Adapter.describe

    for adapter, missing in ((Silent, "build"), (Mute, "describe")):
        loope.register_adapter(adapter)
        model = loope.attach(example["SmallViT"](), "gilbert")
        with pytest.raises(loope.LoopeError, match=f"{adapter.__name__} has .*`{missing}`"):
            loope.save(model, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_subclass_that_would_be_built_as_its_base_is_not_saved(example, tmp_path):
    class Other(example["SmallViT"]):
        def forward(self, images):
            return -super().forward(images)

    model = loope.attach(Other(), "gilbert")
    with pytest.raises(loope.LoopeError, match="its class Other would differ"):
        loope.save(model, tmp_path / "m.safetensors")


def test_an_adapter_that_builds_otherwise_than_its_base_has_a_name_of_its_own():
    class Timm(base.Adapter):
        library = "timm"

        @classmethod
        def build(cls, about):
            return nn.Identity()

    class Inherits(Timm):
        pass

    class Overrides(Timm):
        @classmethod
        def build(cls, about):
            return nn.Linear(1, 1)

    assert (Inherits.library, Overrides.library) == ("timm", "Overrides")
