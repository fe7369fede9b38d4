"""PEFT on attached models: `modules_to_save=["loope"]` trains the encoder, and saves and merges it."""

import peft
import pytest
import torch
from torch import nn

import loope
from tests.surgery.matrix import same_state, state_of
from tests.surgery.models import images, loss, make, make_attached, predict
from tests.surgery.test_reload import model_args

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # PEFT asks for it

PROJECTIONS = {"ViT": ["qkv"], "EVA": ["q_proj", "v_proj"], "CrossViT": ["qkv"], "HF ViT": ["q_proj", "v_proj"]}
TRAINED = ["learned", "loope", "peg", "irpe", "rope_mixed"]  # at least one of each kind
every_model = pytest.mark.parametrize("name", PROJECTIONS)
every_encoder = pytest.mark.parametrize("encoder", TRAINED)


def adapt(model: nn.Module, name: str) -> peft.PeftModel:
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=PROJECTIONS[name], modules_to_save=["loope"], init_lora_weights=False)
    return peft.get_peft_model(model, config)


def train(adapted: peft.PeftModel) -> None:
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for seed in range(2):
        optimizer.zero_grad()
        loss(adapted.base_model.model, images(adapted.base_model.model, seed=seed)).backward()
        optimizer.step()


@every_model
@every_encoder
def test_the_encoder_is_trained_saved_and_merged(name, encoder, tmp_path):
    model = make_attached(name, encoder, prefix="learned")
    before = state_of(model)
    adapted = adapt(model, name)
    train(adapted)
    for key, parameter in adapted.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, key  # DDP takes nothing that is unused
        assert parameter.requires_grad == ("lora_" in key or (".modules_to_save." in key and ".own." not in key)), key
    expected = predict(model)
    with adapted.disable_adapter():
        assert torch.equal(predict(model), predict(make_attached(name, encoder, prefix="learned")))
    assert not torch.allclose(expected, predict(make_attached(name, encoder, prefix="learned")))

    adapted.save_pretrained(tmp_path / "adapter")
    again = make_attached(name, encoder, prefix="learned")
    peft.PeftModel.from_pretrained(again, tmp_path / "adapter")
    assert torch.equal(predict(again), expected)

    merged = adapted.merge_and_unload()
    torch.testing.assert_close(predict(merged), expected, atol=1e-4, rtol=1e-4)
    assert list(merged.state_dict()) == list(before)
    moved = {key for key, value in merged.state_dict().items() if not torch.equal(value, before[key])}
    assert any(key.startswith("loope.encoders") for key in moved)
    assert any(key.startswith("loope.prefixes") for key in moved)
    assert not any(key.startswith("loope.own") for key in moved)
    loaded = loope.load(loope.save(merged, tmp_path / "m.safetensors", model_args=model_args(name)))
    assert torch.equal(predict(loaded), predict(merged))


@every_model
def test_detach_after_merging(name):
    model = make_attached(name, "learned")
    merged = adapt(model, name).unload()  # LoRA is dropped, so that the projections are as they were
    loope.detach(merged)
    assert torch.equal(predict(merged), predict(make(name)))
    assert same_state(merged, state_of(make(name)))


def test_the_copy_that_peft_trains_does_not_carry_the_model():
    model = make_attached("ViT", "learned")
    copied = adapt(model, "ViT").base_model.model.loope.acting
    assert copied is not model.loope.original_module
    assert copied.host is model.loope.original_module.host
    assert copied.host.adapter.model is model


def test_resizing_takes_every_copy_along():
    model = make_attached("ViT", "learned")
    adapted = adapt(model, "ViT")
    loope.resize(model, (64, 32))
    pixels = images(model, (64, 32))
    out = predict(model, pixels)
    with adapted.disable_adapter():
        assert not torch.equal(predict(model, pixels), out)  # without LoRA


@pytest.mark.parametrize("call", [loope.detach, lambda model: loope.bake(model, (32, 32))])
def test_what_must_wait_until_peft_is_merged(call):
    model = make_attached("ViT", "learned")
    adapted = adapt(model, "ViT")
    before = predict(model)
    with pytest.raises(loope.LoopeError, match=r"merge_and_unload"):
        call(model)
    with pytest.raises(loope.LoopeError, match=r"`model\.base_model\.model`"):
        call(adapted)
    assert torch.equal(predict(model), before)


@pytest.mark.parametrize("modules", [["loope"], None])
def test_saving_asks_for_the_merged_model(modules, tmp_path):
    model = make_attached("ViT", "learned")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["qkv"], modules_to_save=modules))
    for each in (adapted, model):
        with pytest.raises(loope.LoopeError, match=r"merge_and_unload"):
            loope.save(each, tmp_path / "m.safetensors", model_args=model_args("ViT"))


def test_strength_acts_on_the_encoder_that_is_trained():
    adapted = adapt(make_attached("ViT", "rope_mixed", keep_own=True), "ViT")
    model = adapted.base_model.model
    full = predict(model)
    loope.set_strength(model, 0, own=0.5)
    assert not torch.allclose(predict(model), full)
    merged = adapted.merge_and_unload()
    assert merged.loope.strengths == (0.0, 0.5)
    loope.set_strength(merged, 1, own=1)
    torch.testing.assert_close(predict(merged), full, rtol=1e-5, atol=1e-5)
