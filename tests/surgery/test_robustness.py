"""Attaching to parts of models, unusual models, changes while attached, hooks of others."""

import runpy

import pytest
import timm
import torch

import loope
from tests.surgery.matrix import every_model
from tests.surgery.models import CROSS, images, make, predict, vit
from tests.surgery.test_api import EXAMPLE


def test_attaching_to_a_part_and_to_the_whole():
    outer = make("HF ViT")
    loope.attach(outer.vit, "gilbert")
    for model in (outer, outer.vit):
        with pytest.raises(loope.LoopeError, match="has something attached already"):
            loope.attach(model, "gilbert")
    loope.detach(outer.vit)
    loope.attach(outer, "gilbert")
    with pytest.raises(loope.LoopeError, match="has something attached already"):
        loope.attach(outer.vit, "gilbert")


def test_crossvit_does_not_drift():
    model = timm.create_model("crossvit_9_240").eval()
    sizes, state = list(model.img_size_scaled), {key: value.clone() for key, value in model.state_dict().items()}
    loope.attach(model, "gilbert")
    for size in [(144, 144), (144, 288), (240, 240)]:
        loope.resize(model, size)
    assert [tuple(size) for size in model.img_size_scaled] == [tuple(size) for size in sizes]
    loope.detach(model)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    loope.attach(model, "gilbert")
    loope.resize(model, (144, 288))
    loope.detach(model)
    assert predict(model, torch.randn(1, 3, 144, 288)).isfinite().all()


@every_model
@pytest.mark.parametrize("attached", [True, False])
def test_num_patches_follows_the_size(name, attached):
    model, made = make(name), []
    if attached:
        loope.attach(model, "gilbert")
    side = images(model).shape[-1]
    embeddings = [each for each in model.modules() if hasattr(each, "num_patches")]
    for each in embeddings:
        each.register_forward_hook(lambda module, args, out: made.append(out.shape[1:-1].numel()))
    for size in [(side, side), (2 * side, 3 * side), (side, 2 * side), (side, side)]:
        loope.resize(model, size)
        made.clear()
        predict(model, images(model, size))
        assert made == [each.num_patches for each in embeddings]
    # NaFlexVit's takes any number.
    assert len(made) == (2 if name == "CrossViT" else 0 if name.startswith("NaFlex") else 1)


def test_crossvit_branches_of_equal_width_are_not_confused():
    model = timm.create_model("crossvit_9_240", **{**CROSS, "embed_dim": (48, 48), "num_heads": (3, 3)}).eval()
    before = predict(model, images(model))
    loope.attach(model, "learned", init="own")
    assert torch.equal(predict(model, images(model)), before)


def test_an_encoder_that_cannot_follow_leaves_the_model_as_it_was():
    model = make("ViT")
    loope.attach(model, ["learned", ("sinusoid", {"order": loope.create_order("hilbert", 4, 4)})])
    before = predict(model)
    with pytest.raises(loope.LoopeError, match="for a grid of 4x4 cells, got 8x8"):
        loope.resize(model, (64, 64))
    assert torch.equal(predict(model), before)


def test_detach_after_the_model_was_changed():
    model = make("ViT")
    loope.attach(model, "learned", freeze_backbone=True)
    model.reset_classifier(0)
    loope.detach(model)
    assert all(parameter.requires_grad for parameter in model.parameters())
    beit = make("BEiT")
    loope.attach(beit, "gilbert")
    beit.prune_intermediate_layers([0])
    loope.detach(beit)
    assert beit.blocks[0].attn.relative_position_bias_table is not None


def test_what_was_frozen_stays_frozen():
    model = make("ViT")
    model.pos_embed.requires_grad_(False)
    loope.attach(model, "gilbert")
    loope.detach(model)
    assert not model.pos_embed.requires_grad


def test_a_table_that_is_a_buffer():
    example = runpy.run_path(str(EXAMPLE))
    for persistent in (True, False):
        model, pixels = example["SmallViT"]().eval(), torch.randn(2, 3, 32, 32)
        table = model.positions.detach()
        del model.positions
        model.register_buffer("positions", table, persistent=persistent)
        before, keys = predict(model, pixels), list(model.state_dict())
        loope.attach(model, "gilbert")
        assert not torch.allclose(predict(model, pixels), before)
        loope.resize(model, (64, 32))
        loope.resize(model, (32, 32))
        loope.detach(model)
        assert torch.equal(predict(model, pixels), before)
        assert list(model.state_dict()) == keys
    plain = example["SmallViT"]()
    del plain.positions
    plain.positions = table
    with pytest.raises(loope.LoopeError, match="`positions` of SmallViT is no parameter, buffer or module"):
        loope.attach(plain, "gilbert")


def test_models_without_a_table_can_learn_prefix_vectors():
    model = vit(pos_embed="none").eval()
    loope.attach(model, "gilbert", prefix="learned")
    before = predict(model, images(model))
    with torch.no_grad():
        model.loope.prefixes["patches"].add_(1)
    assert not torch.allclose(predict(model, images(model)), before)


@pytest.mark.parametrize("name", ["vit_tiny_r_s16_p8_224", "vit_base_patch16_xp_224"])
def test_variants_of_timms_vision_transformer(name):
    model = timm.create_model(name, depth=2, num_classes=3).eval()
    loope.attach(model, "loope")
    assert predict(model, torch.randn(1, 3, 224, 224)).shape == (1, 3)
    loope.detach(model)
    loope.attach(model, "alibi2d")
    assert predict(model, torch.randn(1, 3, 224, 224)).shape == (1, 3)


def test_detach_restores_another_librarys_patch():
    model = make("ViT")
    attention = model.blocks[0].attn
    patch = attention.forward
    attention.forward = patch
    loope.attach(model, "alibi2d")
    loope.detach(model)
    assert attention.__dict__["forward"] is patch


def test_hooks_of_others_see_what_the_next_block_gets():
    model, seen = make("ViT"), {}
    model.blocks[0].register_forward_hook(lambda module, args, out: seen.update(out=out))
    model.blocks[1].register_forward_pre_hook(lambda module, args: seen.update(next=args[0]))
    loope.attach(model, "peg")
    predict(model)
    assert torch.equal(seen["out"], seen["next"])


def test_padding_is_where_the_model_pads():
    model, seen = vit(dynamic_img_size=True, dynamic_img_pad=True).eval(), {}
    loope.attach(model, "loope")
    model.loope.encoders[0][0].generator.register_forward_hook(lambda module, args, out: seen.update(images=args[0]))
    pixels = torch.randn(1, 3, 37, 42)
    predict(model, pixels)
    assert seen["images"].shape == (1, 3, 40, 48)
    assert torch.equal(seen["images"][..., :37, :42], pixels)


def test_options_that_follow_from_the_model_are_refused():
    model = make("ViT")
    with pytest.raises(loope.LoopeError, match="`grid` of the encoder 'learned'"):
        loope.attach(model, [("learned", {"grid": 5})])
    assert not hasattr(model, "loope")
