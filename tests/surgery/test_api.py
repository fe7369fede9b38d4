"""attach, detach and resize: arguments, sizes, mistakes."""

import re
import runpy
from pathlib import Path

import pytest
import timm
import torch

import loope
from tests.surgery.models import MODELS, images, make, make_attached, predict, vit

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"


def test_several_encoders_all_act():
    both = make("ViT")
    report = loope.report(loope.attach(both, ["gilbert", ("rope_axial", {"temperature": 10.0})]))
    assert report.encoders == ["gilbert", "rope_axial"]
    one = make("ViT")
    loope.attach(one, "gilbert")
    other = make("ViT")
    loope.attach(other, "rope_axial", temperature=10.0)
    outputs = [predict(model) for model in (both, one, other)]
    assert not any(torch.allclose(a, b) for a, b in [(outputs[0], outputs[1]), (outputs[0], outputs[2])])
    # Additive and rotary together equal the rotary alone with the table added by hand.
    by_hand = make("ViT")
    loope.attach(by_hand, "rope_axial", temperature=10.0)
    table = loope.create_encoder("gilbert", 48, 4)(None)
    by_hand.patch_embed.register_forward_hook(lambda module, args, tokens: tokens + table)
    torch.testing.assert_close(predict(by_hand), outputs[0])
    two_biases = make("ViT")
    loope.attach(two_biases, ["alibi2d", "alibi2d", "none"])
    assert predict(two_biases).isfinite().all()


def test_prefix_tokens_get_no_position_or_a_learned_one():
    """Without learned vectors, a class token that is moved by hand gives what learned vectors would."""
    model, twin = make("ViT"), make("ViT")
    loope.attach(model, "sincos2d", prefix="learned")
    assert model.loope.prefixes["patches"].shape == (1, 1, 48)
    own = twin.pos_embed[:, :1].detach().clone()
    assert torch.equal(model.loope.prefixes["patches"], own)  # it starts from the model's own
    loope.attach(twin, "sincos2d")
    assert not torch.allclose(predict(model), predict(twin))
    with torch.no_grad():
        twin.cls_token.add_(own)
    torch.testing.assert_close(predict(model), predict(twin))
    free = make("CaiT")
    loope.attach(free, "sincos2d", prefix="learned")  # no prefix in its blocks: nothing to learn
    assert not free.loope.prefixes


def test_positions_are_added_to_patches_only():
    model = make("ViT, no_embed_class")
    seen = {}
    model.blocks[0].register_forward_pre_hook(lambda module, args: seen.update(tokens=args[0]))
    loope.attach(model, "gilbert")
    pixels = images(model)
    predict(model, pixels)
    attached = seen["tokens"]
    loope.detach(model)
    loope.attach(model, "none")
    predict(model, pixels)
    expected = loope.create_encoder("gilbert", 48, 4)(None).expand(2, -1, -1)
    torch.testing.assert_close(attached[:, 2:] - seen["tokens"][:, 2:], expected, atol=1e-5, rtol=0)
    assert torch.equal(attached[:, :2], seen["tokens"][:, :2])


@pytest.mark.parametrize("encoder", loope.list_encoders())
def test_timms_own_ways_to_another_size(encoder):
    model = make("ViT")
    loope.attach(model, encoder)
    model.set_input_size((48, 64))
    assert model.loope.branches[0].grid == (6, 8)
    assert "pos_embed" not in dict(model.named_parameters())
    at_size = predict(model, images(model, (48, 64)))
    dynamic = make("ViT, dynamic size")
    loope.attach(dynamic, encoder)
    dynamic.load_state_dict(make_attached("ViT", encoder).state_dict())
    torch.testing.assert_close(predict(dynamic, images(model, (48, 64))), at_size, atol=1e-4, rtol=1e-4)
    assert predict(dynamic, images(model, (32, 32))).shape == (2, 5)
    assert dynamic.loope.branches[0].grid == (4, 4)  # a call at another size leaves the grid unchanged


def test_padded_images_reach_loope_padded():
    model = vit(dynamic_img_size=True, dynamic_img_pad=True).eval()
    loope.attach(model, "loope")
    assert predict(model, torch.randn(2, 3, 37, 42)).shape == (2, 5)


def test_own_table_is_resampled_without_anything_attached():
    model = make("ViT")
    loope.resize(model, (16, 64))  # 2x8 and 4x4 have the same number of patches
    table = timm.layers.resample_abs_pos_embed(make("ViT").pos_embed, [2, 8], [4, 4], num_prefix_tokens=1)
    assert torch.equal(model.pos_embed, table)
    attached = make_attached("ViT", "gilbert")
    loope.resize(attached, (16, 64))
    loope.detach(attached)
    assert torch.equal(attached.pos_embed, table)
    assert torch.equal(predict(attached, images(model, (16, 64))), predict(model, images(model, (16, 64))))


@pytest.mark.parametrize("name", ["BEiT", "BEiT, shared bias", "EVA", "EVA, mixed rotary", "CrossViT", "HF DeiT"])
def test_a_model_that_was_resized_while_attached_works_after_detach(name):
    model = make_attached(name, "gilbert")
    side = images(model).shape[-1]
    loope.resize(model, (side, 2 * side))
    loope.detach(model)
    straight = make(name)
    loope.resize(straight, (side, 2 * side))
    wide = images(model, (side, 2 * side))
    assert torch.equal(predict(model, wide), predict(straight, wide))
    assert predict(model, wide).isfinite().all()


def test_device_and_dtype_follow_the_model():
    model = make("ViT").bfloat16()
    loope.attach(model, "loope", prefix="learned")
    assert {p.dtype for p in model.loope.parameters()} == {torch.bfloat16}
    assert predict(model, images(model).bfloat16()).dtype == torch.bfloat16
    model.float()
    assert predict(model).dtype == torch.float32
    loope.detach(model)
    assert model.pos_embed.dtype == torch.float32
    meta = make_attached("ViT", "rope_mixed").to("meta")
    assert meta(torch.empty(1, 3, 32, 32, device="meta")).device.type == "meta"


@pytest.mark.parametrize("encoder", loope.list_encoders())
def test_a_custom_model_through_an_adapter(encoder):
    example = runpy.run_path(str(EXAMPLE))
    model, pixels = example["SmallViT"]().eval(), torch.randn(2, 3, 32, 32)
    before = predict(model, pixels)
    loope.attach(model, encoder)
    assert not torch.allclose(predict(model, pixels), before)
    loope.resize(model, (64, 64))
    assert predict(model, torch.randn(2, 3, 64, 64)).shape == (2, 5)
    loope.resize(model, (32, 32))
    loope.detach(model)
    assert torch.equal(predict(model, pixels), before)


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "bit for bit" in capsys.readouterr().out


def test_mistakes():
    model = make("ViT")
    cases = [
        (lambda: loope.detach(model), "Nothing is attached to this VisionTransformer"),
        (lambda: loope.attach(model, "loop"), "Unknown encoder 'loop'; use one of: loope"),
        (lambda: loope.attach(model, "gilbert", colour=1), "Unknown option of the encoder 'gilbert': 'colour'"),
        (lambda: loope.attach(model, []), "Name at least one encoder"),
        (lambda: loope.attach(model, ("sinusoid", {"order": "hilbert"})), "a name or a list of names and"),
        (lambda: loope.attach(model, None), "a name or a list of names and .* got None"),
        (lambda: loope.attach(model, loope.create_encoder("gilbert", 48, 4)), "a name or a list of names"),
        (
            lambda: loope.attach(model, [("gilbert",)]),
            r"must be a name or a \(name, options\) pair, got \('gilbert',\)",
        ),
        (lambda: loope.attach(model, [("gilbert", 3)]), "must be a name or a"),
        (
            lambda: loope.attach(model, "gilbert", freeze_backbone=True),
            "'gilbert' has no parameters, so .* nothing would",
        ),
        (lambda: loope.bake(model, (64, 64)), "Nothing is attached"),
        (lambda: loope.attach(model, ["gilbert", "peg"], after=1), "Options of several encoders go with their names"),
        (lambda: loope.attach(model, "gilbert", prefix="own"), "Unknown prefix 'own'"),
        (lambda: loope.attach(model, "learned", init="zero"), "init"),
        (lambda: loope.attach(model, "peg", after=7), "after none of the model's 2 blocks"),
        (lambda: loope.attach("vit", "peg"), r"Expected a model \(torch.nn.Module\), got str"),
        (lambda: loope.attach(torch.nn.Linear(2, 2), "peg"), "Do not know how to attach to Linear"),
        (lambda: loope.attach(timm.create_model("xcit_nano_12_p16_224"), "loope"), "attends over channels"),
        (lambda: loope.attach(vit(patch_size=(8, 4)), "loope"), "Patches must be square, got 8x4"),
        (lambda: loope.resize(model, (33, 32)), "multiple of the patch size 8, got 33x32; use 32x32"),
        (lambda: loope.resize(model, 0), "`size` must be at least 1x1"),
    ]
    before = predict(model)
    for call, message in cases:
        with pytest.raises(loope.LoopeError, match=message):
            call()
    assert torch.equal(predict(model), before)  # a mistake leaves the model as it was
    assert not any("loope" in name for name, _ in model.named_modules())
    loope.attach(model, "gilbert")
    with pytest.raises(loope.LoopeError, match=r"has something attached already.* call loope\.detach first"):
        loope.attach(model, "peg")
    with pytest.raises(loope.LoopeError, match="patch size cannot change from 8 to 4"):
        model.set_input_size(patch_size=4)
    model.set_input_size(img_size=(64, 32), patch_size=[8, 8])
    strange = vit(attn_layer=type("Strange", (timm.layers.Attention,), {}))
    with pytest.raises(loope.LoopeError, match="acts in attention, and that of this model"):
        loope.attach(strange, "alibi2d")
    loope.attach(strange, "gilbert")
    assert predict(strange.eval(), images(strange)).shape == (2, 5)


def test_every_model_of_the_list_is_named_in_the_documents():
    text = (Path(__file__).parents[2] / "docs" / "attach.md").read_text()
    assert all(re.search(rf"^\| {re.escape(name)} \|", text, re.MULTILINE) for name in MODELS)


def test_transformers_own_way_to_another_size():
    model = make("HF ViT")
    loope.attach(model, "rope_mixed")
    pixels = images(model, (64, 48))
    with torch.no_grad():
        called = model(pixels, interpolate_pos_encoding=True).logits
    loope.resize(model, (64, 48))
    torch.testing.assert_close(called, predict(model, pixels), atol=1e-5, rtol=1e-5)
