"""Runs whose encoder starts from what a pretrained model knows, and that are tested on all test images."""

import dataclasses

import pytest
import torch

import loope
from loope.lab.experiments.names import TINY_MODELS
from loope.lab.experiments.presets import image_run
from loope.lab.experiments.runner import create_experiment
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Data, Encoder
from loope.lab.experiments.timm_models import create_timm
from tests.lab.data.dataset_files import write_folders


def build_model(run, outputs):
    experiment = create_experiment(run, Settings(workers=0))
    experiment.outputs = outputs  # without its data
    return experiment.build_model()


def test_an_encoder_may_start_from_the_models_own_encoding():
    run = image_run("smoke", "ViT-Base", "Oxford-IIIT", "learned")
    torch.manual_seed(run.seed)
    original = create_timm(run.model, num_classes=4).eval()
    images = torch.randn(2, 3, 32, 32)
    model = build_model(dataclasses.replace(run, encoder=Encoder(name="rope_axial", init="own")), 4).eval()
    assert torch.equal(model(images), original(images))
    assert loope.report(model).encoders == ["rope_axial"]


def test_a_model_that_was_handed_over_gets_a_new_classifier(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPE_WEIGHTS", str(tmp_path))
    spec = TINY_MODELS["ViT-Base"]
    swapped = loope.attach(create_timm(spec, num_classes=10), "rope_mixed")
    file = tmp_path / f"{spec.name}-rope_mixed.safetensors"
    loope.save(swapped, file, model_args=spec.made_with())
    run = image_run("smoke", "ViT-Base", "Oxford-IIIT", "rope_mixed")
    run = dataclasses.replace(run, encoder=Encoder(name="rope_mixed", init="swapped"))
    model = build_model(run, 4)
    assert model.num_classes == model(torch.randn(1, 3, 32, 32)).shape[1] == 4
    for name, value in swapped.state_dict().items():
        assert name.startswith("head.") or torch.equal(model.state_dict()[name], value)
    other = dataclasses.replace(run, encoder=Encoder(name="rope_axial", init="swapped"))
    file.rename(tmp_path / f"{spec.name}-rope_axial.safetensors")
    with pytest.raises(loope.LoopeError, match="handed over to 'rope_axial'"):
        build_model(other, 4)
    with pytest.raises(loope.LoopeError, match=f"loope swap {spec.name} rope_mixed"):
        build_model(run, 4)


def test_all_test_images_are_used_where_a_run_says_so(tmp_path):
    write_folders(tmp_path / "imagenet", ["n01", "n02"], {"train": 20, "val": 6})
    options = {"split": "official", "per_class": 4}
    run = image_run("smoke", "ViT-Base", "Oxford-IIIT", "none")

    def sizes(**more):
        data = Data(name="imagenet", options={**options, **more})
        parts = create_experiment(dataclasses.replace(run, data=data), Settings(data=str(tmp_path))).parts
        return {name: len(part) for name, part in parts.items()}

    assert sizes() == {"train": 8, "val": 2, "test": 8}
    assert sizes(test="all") == {"train": 8, "val": 2, "test": 12}
