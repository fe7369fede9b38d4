"""Files that describe more than they hold: refused on `meta`, before anything is allocated or much is built."""

import json
import os
import threading

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

import loope
from loope.surgery import checkpoint, rehearsal
from loope.surgery.adapters.base import build_model
from tests.surgery.models import TIMM, make, predict

ARGS = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
GILBERT = {"encoders": [["gilbert", {}]], "keep_own": False, "prefix": "none"}
HF = {"library": "transformers", "class": "ViTModel"}


def recipe(model: dict, attach: dict = GILBERT, size=(224, 224), dtype: str = "float32") -> dict:
    return {"format": 1, "model": model, "attach": attach, "size": list(size), "dtype": dtype}


def timm_model(name: str = "vit_tiny_patch16_224", **args) -> dict:
    return {"library": "timm", "name": name, "args": args}


@pytest.fixture
def built(monkeypatch):
    """Record on which device models are built, and the number of parameters created."""
    places, made, build = [], [], checkpoint.build_model

    def watched(about):
        places.append(torch.empty(0).device.type)
        return build(about)

    monkeypatch.setattr(checkpoint, "build_model", watched)
    hook = register_module_parameter_registration_hook(lambda module, name, tensor: made.append(tuple(tensor.shape)))
    yield places, made
    hook.remove()


TINY_FILES = {
    "seven billion parameters": recipe(timm_model("vit_7b_patch16_dinov3")),
    "ten million blocks": recipe(timm_model(depth=10**7)),
    "sixty thousand blocks": recipe(timm_model(depth=60_000, embed_dim=3, num_heads=1)),
    "four thousand blocks": recipe(timm_model(depth=4000)),
    "four thousand layers of transformers": recipe({**HF, "config": {"num_hidden_layers": 4000}}),
    "a billion labels": recipe({**HF, "config": {"num_labels": 10**9}}),
    "a large image": recipe(timm_model(), size=(60_000, 60_000)),
    "a large image for the model": recipe(timm_model(img_size=60_000), size=(60_000, 60_000)),
    "a large image for a model without a table": recipe(
        timm_model("vit_small_patch16_rope_224", img_size=60_000, depth=1), size=(60_000, 60_000)
    ),
    "a wide model": recipe(timm_model(embed_dim=65_536, num_heads=1)),
    "a wide layer": recipe(timm_model(mlp_ratio=1e12)),
    "a million classes": recipe(timm_model(num_classes=10**6)),
    "many encoders": recipe(timm_model(), {**GILBERT, "encoders": [["none", {}]] * 10_000}),
    "a segmentation model around all this": recipe(
        {
            "library": "loope",
            "class": "SETR",
            "backbone": timm_model(depth=4000),
            "labels": {"name": "a", "names": ["b"], "colours": [[0, 0, 0]]},
            "options": {},
        }
    ),
}


@pytest.mark.parametrize("about", TINY_FILES)
def test_a_tiny_file_that_describes_a_large_model(about, tmp_path, built):
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.zeros(1)}, path, metadata={"loope": json.dumps(TINY_FILES[about])})
    with pytest.raises(loope.LoopeError, match=r"larger than the file|are possible|for a grid of|10,000 encoders"):
        loope.load(path)
    places, made = built
    assert set(places) <= {"meta"}
    assert len(made) <= rehearsal.MOST_STRANGE + 4


def rewritten(path, change) -> None:
    """The file with another recipe, state and file of tensors, as `change(recipe, state)` leaves them."""
    with safe_open(path, "pt") as file:
        described, state = json.loads(file.metadata()["loope"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    change(described, state)
    save_file(state, path, metadata={"loope": json.dumps(described)})


@pytest.fixture
def saved(tmp_path):
    model = make("ViT")
    loope.attach(model, ["learned", "irpe"], prefix="learned")
    return loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda described, state: state.pop("norm.weight"), r"norm\.weight"),
        (lambda described, state: state.update({"norm.weight": torch.zeros(49)}), r"norm\.weight"),
        (lambda described, state: state.update(strange=torch.zeros(3)), "strange"),
        (
            lambda described, state: state.update({"loope.encoders.0.0.table": torch.zeros(1, 4, 48)}),
            r"encoders\.0\.0\.table",
        ),
        (lambda described, state: described["model"]["args"].update(depth=3), r"blocks\.2\."),
        (lambda described, state: described.update(size=[40, 32]), r"encoders\.0\.0\.table"),
        (lambda described, state: described["attach"]["encoders"].pop(), r"loope\.encoders\.0\.1"),
        (lambda described, state: described.update(dtype="float64"), "float64"),
        (lambda described, state: described.update(dtype="complex128"), "complex128"),
        (lambda described, state: described.update(dtype="save"), "save"),
        (lambda described, state: described.update(size=[32_000, 32_000]), "32000x32000"),
        (lambda described, state: state.update({f"t{n}": torch.zeros(0) for n in range(3000)}), "2,048 tensors"),
    ],
)
def test_description_and_tensors_must_agree(change, named, saved, built):
    rewritten(saved, change)
    with pytest.raises(loope.LoopeError, match=named):
        loope.load(saved)
    assert set(built[0]) <= {"meta"}


def test_an_encoder_that_would_be_larger_than_the_file_is_not_allocated(saved, built):
    def enlarge(described, state):
        described["model"]["args"]["img_size"] = described["size"] = [
            1008,
            1008,
        ]  # LOOPE's mixer has a weight for each pair
        described["attach"]["encoders"] = [["loope", {}]]
        state["pos_embed"] = torch.zeros(1, 1 + 126 * 126, 48)

    rewritten(saved, enlarge)
    with pytest.raises(loope.LoopeError, match="encoder that the file describes is larger"):
        loope.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_no_numbers_are_refused(value, dtype, tmp_path):
    model = make("ViT").to(dtype)
    loope.attach(model, "gilbert")
    with torch.no_grad():
        model.blocks[1].mlp.fc1.weight[3, 4] = value
    path = loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    with pytest.raises(loope.LoopeError, match=r"not finite, in blocks\.1\.mlp\.fc1\.weight"):
        loope.load(path)


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "m.safetensors")
    with pytest.raises(loope.LoopeError, match="There is no file"):
        loope.load(tmp_path / "m.safetensors")


def test_other_threads_may_build_models_during_a_load(saved, monkeypatch):
    build, built_elsewhere = checkpoint.build_model, []

    def build_in_another_thread(about):
        def elsewhere():
            built_elsewhere.append([nn.Linear(999, 7) for _ in range(rehearsal.MOST_STRANGE + 1)])

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return build(about)

    monkeypatch.setattr(checkpoint, "build_model", build_in_another_thread)
    assert torch.equal(predict(loope.load(saved)), predict(loope.load(saved)))
    assert built_elsewhere


@pytest.mark.parametrize(
    ("name", "config", "named"),
    [
        ("ViTModel", {"auto_map": {"AutoModel": "somewhere--code.Model"}}, "auto_map"),
        ("DepthAnythingForDepthEstimation", {"backbone": "resnet50", "use_timm_backbone": True}, "backbone"),
        ("DPTForDepthEstimation", {"backbone_config": {"use_pretrained_backbone": True}}, "use_pretrained_backbone"),
        ("UperNetForSemanticSegmentation", {"backbone_config": {"model_type": "timm_backbone"}}, "timm"),
        ("TimmWrapperModel", {"model_type": "vit", "architecture": "hf-hub:some/where"}, "hf-hub"),
        (
            "TimmWrapperModel",
            {"architecture": "vit_tiny_patch16_224", "model_args": {"checkpoint_path": "x"}},
            "checkpoint_path",
        ),
    ],
)
def test_a_configuration_of_transformers_reads_nothing_from_elsewhere(name, config, named):
    with pytest.raises(loope.LoopeError, match=named):
        build_model({"library": "transformers", "class": name, "config": config})
