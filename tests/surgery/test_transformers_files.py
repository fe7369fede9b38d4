"""Folders that transformers wrote from attached models: `save_pretrained` and `Trainer`."""

import json
import logging

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, Trainer, TrainingArguments

import loope
from tests.surgery import transformers_models as families
from tests.surgery.matrix import same_state, state_of
from tests.surgery.models import images, make, make_attached, predict
from tests.surgery.test_reload import model_args

every_model = pytest.mark.parametrize("name", ["HF ViT", "HF ViTModel", "HF DeiT", "HF DeiTModel"])


@every_model
@pytest.mark.parametrize("options", [{}, {"prefix": "learned"}, {"keep_own": True}], ids=str)
def test_save_pretrained(name, options, tmp_path):
    model = make_attached(name, ["learned", "rope_mixed"], **options)
    model.save_pretrained(tmp_path)
    loaded = loope.load(tmp_path)
    assert type(loaded) is type(model)
    assert not loaded.training
    assert same_state(loaded, state_of(model))
    assert torch.equal(predict(loaded), predict(model))
    loope.detach(loaded)
    assert torch.equal(predict(loaded), predict(make(name)))


FEW = (
    "DINOv3",
    "BEiT",
    "CLIPModel",
    "DepthAnythingForDepthEstimation",
    "TimmWrapperModel",
)  # the others are slow tests


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in FEW else [pytest.mark.slow]) for each in families.MODELS]
)
def test_from_pretrained_names_what_reads_the_folder(name, tmp_path):
    model = loope.attach(families.make(name), ["learned", "rope_mixed"], prefix="learned")
    model.save_pretrained(tmp_path)
    for reader in (type(model), AutoConfig):
        with pytest.raises(Exception, match=r"loope\.load"):
            reader.from_pretrained(tmp_path)
    loaded = loope.load(tmp_path)
    if name != "PixioBackbone":  # transformers mixes up its two norms
        assert same_state(loaded, state_of(model))
        torch.testing.assert_close(families.predict(loaded), families.predict(model), rtol=1e-6, atol=1e-6)
    loope.detach(loaded)
    loaded.save_pretrained(tmp_path)
    type(model).from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["CLIP", "Dinov2", "SigLIP 2"])
def test_a_folder_of_a_resized_model(name, tmp_path):
    model = loope.attach(families.make(name), "learned")
    loope.resize(model, (48, 48))
    model.save_pretrained(tmp_path)
    assert torch.equal(families.predict(loope.load(tmp_path), (48, 48)), families.predict(model, (48, 48)))


PARTS = {
    "LlavaForConditionalGeneration": "model.vision_tower",
    "CLIPModel": "vision_model",
    "DepthAnythingForDepthEstimation": "backbone",
    "YolosForObjectDetection": "vit",
    "SamModel": "vision_encoder",
}


@pytest.mark.parametrize("keep_own", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_a_folder_of_the_model_around_an_attached_one(name, keep_own, tmp_path, caplog, monkeypatch):
    model = families.make(name)
    part = model.get_submodule(PARTS[name])
    loope.attach(part, ["learned", "rope_mixed"], keep_own=keep_own)
    for parameter in part.loope.encoders.parameters():
        torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    type(model).from_pretrained(tmp_path)
    warned = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert any("loope_load" in each for each in warned)
    loaded = loope.load(tmp_path)
    assert same_state(loaded, state_of(model))
    assert torch.equal(families.predict(loaded), families.predict(model))
    loope.detach(loaded.get_submodule(PARTS[name]))
    assert torch.equal(families.predict(loaded), families.predict(families.make(name)))


def test_a_folder_of_the_model_around_a_resized_one(tmp_path):
    model = families.make("YolosForObjectDetection")
    loope.resize(loope.attach(model.vit, "learned"), (48, 32))
    model.save_pretrained(tmp_path)
    assert torch.equal(families.predict(loope.load(tmp_path), (48, 32)), families.predict(model, (48, 32)))


def test_a_folder_of_two_attached_parts(tmp_path):
    model = families.make("CLIPModel")
    loope.attach(model.vision_model, "learned").save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state["other.loope._extra_state"] = state["loope._extra_state"].clone()
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(loope.LoopeError, match="attached parts"):
        loope.load(tmp_path)


def test_folders_from_before_the_description(tmp_path):
    model = make_attached("HF ViT", "learned")
    type(model).save_pretrained(model, tmp_path)
    assert torch.equal(predict(loope.load(tmp_path)), predict(model))


def test_an_attached_model_is_not_uploaded_without_its_description(tmp_path):
    with pytest.raises(loope.LoopeError, match="HubModel"):
        make_attached("HF ViT", "learned").save_pretrained(tmp_path, push_to_hub=True)


def test_shards(tmp_path):
    model = make_attached("HF ViT", "learned")
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert torch.equal(predict(loope.load(tmp_path)), predict(model))


@pytest.mark.parametrize("keep_own", [False, True])
def test_a_resized_model(keep_own, tmp_path):
    model = make_attached("HF ViT", "learned", keep_own=keep_own)
    loope.resize(model, (64, 48))
    model.save_pretrained(tmp_path)
    loaded = loope.load(tmp_path)
    pixels = images(model, (64, 48))
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))
    if not keep_own:
        loope.resize(loaded, (32, 32))
        loope.detach(loaded)
        assert torch.equal(predict(loaded), predict(make("HF ViT")))  # what was set aside kept its own size


def test_half_precision(tmp_path):
    model = make_attached("HF ViT", "learned").bfloat16()
    model.save_pretrained(tmp_path)
    loaded = loope.load(tmp_path)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert torch.equal(predict(loaded, images(model).bfloat16()), predict(model, images(model).bfloat16()))


@pytest.mark.filterwarnings("ignore")  # Trainer's own
def test_trainer(tmp_path):
    model = make_attached("HF ViT", "rope_mixed")
    rows = [{"pixel_values": pixels, "labels": 1} for pixels in images(model)]
    settings = TrainingArguments(
        tmp_path, max_steps=2, save_steps=1, learning_rate=0.1, report_to=[], use_cpu=True, disable_tqdm=True
    )
    before = predict(model)
    Trainer(model, settings, train_dataset=rows).train()
    model.eval()
    assert not torch.allclose(predict(model), before)
    assert torch.equal(predict(loope.load(tmp_path / "checkpoint-2")), predict(model))
    again = make_attached("HF ViT", "rope_mixed")
    Trainer(again, settings, train_dataset=rows).train(resume_from_checkpoint=tmp_path / "checkpoint-2")
    assert torch.equal(again.loope.encoders[0][0].frequencies, model.loope.encoders[0][0].frequencies)


def test_a_folder_of_the_hub(tmp_path):
    model = make_attached("ViT", "gilbert")
    loope.HubModel(model, model_args("ViT")).save_pretrained(tmp_path)
    assert torch.equal(predict(loope.load(tmp_path)), predict(model))


def test_the_file_alone_names_the_folder(tmp_path):
    make_attached("HF ViT", "gilbert").save_pretrained(tmp_path)
    with pytest.raises(loope.LoopeError, match=rf"loope\.load\(.*{tmp_path.name}['\"]\)"):
        loope.load(tmp_path / "model.safetensors")


def test_other_folders(tmp_path):
    with pytest.raises(loope.LoopeError, match=r"config\.json"):
        loope.load(tmp_path)
    make("HF ViT").save_pretrained(tmp_path)
    with pytest.raises(loope.LoopeError, match="nothing attached"):
        loope.load(tmp_path)


def test_a_folder_of_peft_names_peft(tmp_path):
    config = peft.LoraConfig(r=2, target_modules=["qkv"], modules_to_save=["loope"])
    peft.get_peft_model(make_attached("ViT", "learned"), config).save_pretrained(tmp_path)
    for path in (tmp_path, tmp_path / "adapter_model.safetensors"):
        with pytest.raises(loope.LoopeError, match=r"PeftModel\.from_pretrained"):
            loope.load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class", "BertModel"),
        ("class", "logging"),
        ("class", None),
        ("hidden_size", 96),
        ("num_hidden_layers", 3),
    ],
)
def test_damaged_folders(key, value, tmp_path):
    make_attached("HF ViT", "gilbert").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    about = config["loope"]["model"]
    (about if key == "class" else about["config"])[key] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(loope.LoopeError):
        loope.load(tmp_path)


def test_shards_outside_the_folder_are_not_read(tmp_path):
    folder = tmp_path / "model"
    make_attached("HF ViT", "gilbert").save_pretrained(folder)
    save_file(load_file(folder / "model.safetensors"), tmp_path / "outside.safetensors")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"classifier.bias": "../outside.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(loope.LoopeError, match="outside"):
        loope.load(folder)
