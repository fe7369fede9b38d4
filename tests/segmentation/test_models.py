"""Backbones, sizes and attachments."""

import copy
from dataclasses import asdict

import pytest
import timm
import timm.optim
import torch
from torch.nn import functional as F

import loope
from loope.segmentation import SETR, Segmenter
from loope.segmentation.labels import Labels
from tests.segmentation.tiny import ARGS, CLASSES, DECODERS, PATCH, SIDE, images, make, vit

PLAIN = {"img_size": SIDE, **ARGS}
BACKBONES = {
    "ViT": vit,
    "no class token": lambda: vit(class_token=False, global_pool="avg"),
    "registers": lambda: vit(reg_tokens=4),
    "mean pooling": lambda: vit(global_pool="avg"),
    "attention pooling": lambda: vit(global_pool="map"),
    "DeiT distilled": lambda: timm.create_model("deit_tiny_distilled_patch16_224", **PLAIN),
    "CaiT": lambda: timm.create_model("cait_xxs24_224", **PLAIN),
    "EVA": lambda: timm.models.Eva(**PLAIN, use_rot_pos_emb=True),
    "BEiT": lambda: timm.models.Beit(**PLAIN, use_abs_pos_emb=False, use_rel_pos_bias=True),
}
every_decoder = pytest.mark.parametrize(("cls", "decoder"), DECODERS)


@pytest.mark.parametrize("name", BACKBONES)
@every_decoder
def test_every_backbone_and_nothing_idle(name, cls, decoder):
    model = make(cls, decoder, BACKBONES[name]()).train()
    loope.attach(model, "gilbert", prefix="learned")
    out = model(images())
    assert out.shape == (2, CLASSES, SIDE, SIDE)
    out.square().mean().backward()
    assert not [key for key, p in model.named_parameters() if p.requires_grad and p.grad is None]


def test_a_norm_after_pooling_goes_before():
    pooled = vit(global_pool="avg")
    norm = pooled.fc_norm
    assert isinstance(pooled.norm, torch.nn.Identity)
    assert Segmenter(pooled, 3).backbone.norm is norm
    plain = vit()
    norm = plain.norm
    assert Segmenter(plain, 3).backbone.norm is norm


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (lambda: timm.create_model("crossvit_9_240"), "must be a timm ViT, DeiT, BEiT, EVA or CaiT, got CrossVit"),
        (lambda: timm.create_model("swin_tiny_patch4_window7_224"), "got SwinTransformer"),
        (lambda: timm.create_model("samvit_base_patch16_224", depth=1), "got VisionTransformerSAM"),
        (lambda: torch.nn.Linear(3, 3), "Do not know how to attach to Linear"),
    ],
)
def test_backbones_that_will_not_do(backbone, message):
    with pytest.raises(loope.LoopeError, match=message):
        SETR(backbone(), 3)


def test_a_backbone_with_something_attached():
    backbone = vit()
    loope.attach(backbone, "gilbert")
    with pytest.raises(loope.LoopeError, match="attach to the whole model instead"):
        SETR(backbone, 3)
    model = SETR(vit(), 3)
    loope.attach(model.backbone, "gilbert")
    with pytest.raises(loope.LoopeError, match="to it, a part of it or the model around it"):
        loope.attach(model, "gilbert")


@pytest.mark.parametrize("cls", [SETR, Segmenter])
def test_bad_arguments(cls):
    with pytest.raises(loope.LoopeError, match=r"Unknown decoder 'mask2'; use one of: "):
        cls(vit(), 3, "mask2")
    for classes in (0, 2.5, "many", 256):
        with pytest.raises(loope.LoopeError, match=r"`classes` must be|Labels need 1 to 255"):
            cls(vit(), classes)
    with pytest.raises(loope.LoopeError, match=r"must be \(B, channels, H, W\), got \(3, 32, 32\)"):
        cls(vit(), 3)(images()[0])


@torch.no_grad()
@every_decoder
@pytest.mark.parametrize("size", [(32, 48), (31, 41), (25, 47)])
def test_sizes_between_are_padded_and_cropped(cls, decoder, size):
    model = make(cls, decoder, vit((32, 48)))
    pixels = images(size)
    whole = F.pad(pixels, (0, 48 - size[1], 0, 32 - size[0]))
    assert torch.equal(model(pixels), model(whole)[..., : size[0], : size[1]])
    assert model(pixels).shape == (2, CLASSES, *size)


@torch.no_grad()
@every_decoder
def test_other_sizes(cls, decoder):
    fixed = make(cls, decoder)
    with pytest.raises(loope.LoopeError, match=r"takes images of 32x32 pixels, got 32x40; call loope\.resize"):
        fixed(images((32, 40)))
    loope.resize(fixed, (48, 80))
    assert fixed.size == (48, 80)
    assert fixed(images((45, 77))).shape == (2, CLASSES, 45, 77)
    dynamic = make(cls, decoder, vit(dynamic_img_size=True))
    loope.attach(dynamic, "loope")
    for size in ((32, 32), (64, 16), (16, 64), (50, 70)):
        assert dynamic(images(size)).shape == (2, CLASSES, *size)


@torch.no_grad()
@every_decoder
def test_encoders_see_the_pixels(cls, decoder):
    model = make(cls, decoder)
    report = loope.report(loope.attach(model, "loope", activation="gelu"))  # ReLU may start dead, and blind
    assert report.set_aside == ["backbone.pos_embed"]
    assert all(key.startswith("loope.") for key in model.state_dict() if "encoders" in key)
    encoder, seen = model.loope.encoders[0][0], []
    own = encoder.embed
    encoder.embed = lambda pixels, positions: seen.append((pixels, positions)) or own(pixels, positions)
    pixels = images((30, 32))
    one = model(pixels)
    assert torch.equal(seen[0][0], F.pad(pixels, (0, 0, 0, 2)))
    assert seen[0][1].whole == (4, 4)
    encoder.embed = lambda pixels, positions: own(pixels.flip(0), positions)  # the other image's positions
    assert not torch.allclose(model(pixels), one)


@torch.no_grad()
def test_without_positions_patches_are_classified_wherever_they_are():
    model = make(Segmenter, "linear").double()
    pixels = images().double()
    upside_down = pixels.unflatten(2, (4, PATCH)).flip(2).flatten(2, 3)  # rows of patches, not of pixels
    # Means over rows of patches: enlarging is the same upwards and downwards.
    for encoder, moved in (("none", False), ("gilbert", True), ("peg", True), ("rope_axial", True)):
        loope.attach(model, encoder)
        one, two = (model(each).unflatten(2, (4, PATCH)).mean((3, 4)) for each in (pixels, upside_down))
        assert torch.allclose(one, two.flip(2)) != moved, encoder
        loope.detach(model)


def test_weight_decay_and_layer_decay():
    model = make(Segmenter, "mask")
    loope.attach(model, "learned")
    assert {"decoder.classes.weight", "backbone.cls_token", "loope.encoders.0.0.table"} <= model.no_weight_decay()
    groups = timm.optim.param_groups_layer_decay(model, weight_decay=0.05, layer_decay=0.5)
    rate = {id(parameter): group["lr_scale"] for group in groups for parameter in group["params"]}
    named = {name: rate[id(p)] for name, p in model.named_parameters() if p.requires_grad}
    depth = ARGS["depth"]
    assert named["decoder.enter.weight"] == 1
    assert named["backbone.norm.weight"] == named["backbone.blocks.3.mlp.fc1.weight"] == 0.5
    assert named["backbone.blocks.0.attn.qkv.weight"] == 0.5**depth
    assert named["backbone.patch_embed.proj.weight"] == named["loope.encoders.0.0.table"] == 0.5 ** (depth + 1)
    setr = timm.optim.param_groups_layer_decay(make(SETR, "mla"), weight_decay=0.05, layer_decay=0.5)
    assert max(group["lr_scale"] for group in setr) == 1


@every_decoder
def test_a_checkpoint_for_another_number_of_classes(cls, decoder):
    few, many = make(cls, decoder), make(cls, decoder, classes=19)
    for model in (few, copy.deepcopy(few)):
        with pytest.raises(
            loope.LoopeError, match="is for 19 classes, the model for 5; make the model with classes=19"
        ):
            model.load_state_dict(many.state_dict())
    few.backbone.load_state_dict(many.backbone.state_dict())
    few.load_state_dict(make(cls, decoder, seed=1).state_dict())


def test_labels():
    labels = Labels("two", ("a", "b"), ((255, 0, 0), (0, 255, 0)))
    assert SETR(vit(), labels).labels is labels
    numbered = SETR(vit(), 200).labels
    assert numbered.names[199] == "class 199"
    assert len(set(numbered.colours)) == 200
    assert labels.paint(torch.tensor([[1, 255, 0]])).tolist() == [[[0, 255, 0], [0, 0, 0], [255, 0, 0]]]
    assert Labels(**asdict(labels)) == labels
    for wrong in (("a",), ()):
        with pytest.raises(loope.LoopeError, match="and a colour each"):
            Labels("bad", wrong, ((0, 0, 0), (1, 1, 1)))
    with pytest.raises(loope.LoopeError, match="three whole numbers from 0 to 255"):
        Labels("bad", ("a",), ((0, 0, 256),))
