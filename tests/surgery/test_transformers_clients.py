"""What people do with attached models: transformers' pipelines, timm's optimizers, PEFT. `Trainer`: see the files."""

import peft
import pytest
import timm
import torch
import transformers as hf
from PIL import Image
from timm.optim import create_optimizer_v2
from torch import nn

import loope
from tests.surgery.models import TIMM
from tests.surgery.transformers_models import inputs, make, output, predict


@pytest.mark.parametrize("name", ["ViT", "Dinov2", "DINOv3", "CLIP"])
def test_a_pipeline_extracts_features(name):
    model = loope.attach(make(name), ["sincos2d", "rope_axial"])
    processor = hf.ViTImageProcessor(size={"height": 32, "width": 32})
    picture = Image.linear_gradient("L").convert("RGB")
    extract = hf.pipeline("image-feature-extraction", model=model, image_processor=processor)
    with torch.no_grad():
        expected = model(**processor(picture, return_tensors="pt"))[0]
    assert torch.equal(extract(picture, return_tensors=True), expected)


def test_timms_optimizer_with_layer_decay():
    model = loope.attach(timm.create_model("vit_tiny_patch16_224", **TIMM), ["learned", "rope_mixed"], prefix="learned")
    optimizer = create_optimizer_v2(model, opt="adamw", lr=0.1, weight_decay=0.05, layer_decay=0.5)
    groups = {id(each): group for group in optimizer.param_groups for each in group["params"]}
    trained = {name: groups[id(each)] for name, each in model.named_parameters() if each.requires_grad}
    assert len(trained) == len(groups)
    lowest = trained["patch_embed.proj.weight"]["lr_scale"]
    assert lowest == min(group["lr_scale"] for group in trained.values()) < trained["head.weight"]["lr_scale"] == 1
    ours = {name: group for name, group in trained.items() if name.startswith("loope.")}
    assert len(ours) == 3
    assert {group["lr_scale"] for group in ours.values()} == {lowest}
    assert {group["weight_decay"] for group in ours.values()} == {0.0}
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    model(torch.randn(2, 3, 32, 32)).square().sum().backward()
    optimizer.step()
    for name, each in model.named_parameters():
        assert torch.equal(each, before[name]) == (not each.requires_grad), name


@pytest.mark.parametrize("name", ["Dinov2", "DINOv3", "CLIP", "SigLIP", "BEiT"])
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # PEFT asks for it
def test_lora(name, tmp_path):
    model = loope.attach(make(name), ["learned", "rope_mixed"])
    own = predict(model)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], modules_to_save=["loope"])
    adapted = peft.get_peft_model(model, config)
    optimizer = torch.optim.SGD([each for each in adapted.parameters() if each.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        output(adapted.base_model.model).square().mean().backward()
        optimizer.step()
    expected = predict(model)
    with adapted.disable_adapter():
        assert torch.equal(predict(model), own)
    adapted.save_pretrained(tmp_path)
    again = loope.attach(make(name), ["learned", "rope_mixed"])
    peft.PeftModel.from_pretrained(again, tmp_path)
    assert torch.equal(predict(again), expected)
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(predict(merged), expected, rtol=1e-4, atol=1e-5)
    loaded = loope.load(loope.save(merged, tmp_path / "m.safetensors"))
    assert torch.equal(predict(loaded), predict(merged))


def test_llava_sees_images_through_the_encoder():
    model = make("LlavaForConditionalGeneration")
    shown = inputs(model)
    tower = model.model.vision_tower
    with torch.no_grad():
        before = tower(shown["pixel_values"]).last_hidden_state
        loope.attach(model, "learned")
        nn.init.normal_(model.loope.encoders[0][0].table)
        after = tower(shown["pixel_values"]).last_hidden_state
        text = model(input_ids=shown["input_ids"][:, -2:]).logits  # without images
        loope.detach(model)
        assert torch.equal(model(input_ids=shown["input_ids"][:, -2:]).logits, text)
    assert not torch.allclose(after, before)
