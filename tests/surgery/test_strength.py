"""`set_strength`: from nothing, exactly, to everything, for every encoder and model, and the own encoding likewise."""

import copy

import pytest
import timm
import torch
import torch._dynamo.testing

import loope
from loope.surgery import specs
from tests.surgery.models import MODELS, TIMM, images, make, output, predict

SIX = ["sincos2d", "learned", "loope", "peg", "irpe", "rope_mixed"]
PAIRS = sorted({(name, encoder) for name in MODELS for encoder in SIX} | {("ViT", e) for e in loope.list_encoders()})


def attached(name, encoder, **options):
    model = loope.attach(make(name), encoder, **options)
    for parameter in [*model.loope.encoders.parameters(), *model.loope.prefixes.parameters()]:
        torch.nn.init.normal_(parameter, std=0.3)  # some start at zero
    return model


@pytest.mark.parametrize(("name", "encoder"), PAIRS)
def test_at_zero_the_encoder_is_not_there(name, encoder):
    model = attached(name, encoder, keep_own=True, prefix="learned" if encoder == "sincos2d" else None)
    full = predict(model)
    loope.set_strength(model, 0)
    without = predict(model)
    loope.set_strength(model, 1)
    again = predict(model)
    loope.detach(model)
    if (name, encoder) == ("BEiT, shared bias", "irpe"):
        # The sum of the two biases has another memory layout than BEiT's own, for which torch has another kernel.
        torch.testing.assert_close(without, predict(model), rtol=1e-5, atol=1e-6)
    else:
        assert torch.equal(without, predict(model))
    torch.testing.assert_close(again, full, rtol=1e-5, atol=1e-5)
    if encoder != "none":
        assert not torch.equal(full, without)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_own_encoding_has_a_strength_too(name):
    model = attached(name, "none", keep_own=True)
    full = predict(model)
    loope.set_strength(model, 1, own=0)
    none = predict(model)
    loope.set_strength(model, 1, own=1)
    assert torch.equal(predict(model), full)
    bare = copy.deepcopy(model)
    loope.detach(bare)
    assert torch.equal(predict(bare), full)
    loope.attach(bare, "none")
    torch.testing.assert_close(predict(bare), none, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoder", SIX)
def test_strength_acts_smoothly(encoder):
    model = attached("ViT", encoder).double()
    outputs = []
    for strength in (0.0, 0.5, 0.5 + 1e-6, 1.0):
        loope.set_strength(model, strength)
        outputs.append(output(model, images(model).double()).detach())
    nothing, half, beside, full = outputs
    assert 0 < float((beside - half).abs().max()) < 1e-3
    assert not torch.allclose(half, nothing)
    assert not torch.allclose(half, full)


@pytest.mark.parametrize("encoder", ["rope_axial", "rope_mixed"])
def test_angles_are_multiplied(encoder):
    made = loope.create_encoder(encoder, 16, (3, 4), heads=2, depth=1).double()
    q = torch.randn(1, 2, 12, 8).double()
    half, _ = made.rotate_partly(q, q, made.grid, 0, torch.tensor(0.5))
    twice, _ = made.rotate_partly(half, half, made.grid, 0, torch.tensor(0.5))
    torch.testing.assert_close(twice, made.rotate(q, q, made.grid, 0)[0])


def test_gradients_reach_the_encoder_and_the_own_table():
    model = attached("ViT", "learned", keep_own=True)
    loope.set_strength(model, 0.25, own=0.5)
    output(model, images(model)).square().sum().backward()
    ours, own = model.loope.encoders[0][0].table.grad, model.pos_embed.grad[:, 1:]
    torch.testing.assert_close(ours * 2, own)  # both are added at the same place
    copy.deepcopy(model)  # nothing of the pass is left behind
    assert "pos_embed" in model.state_dict()


def test_strength_is_saved(tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **TIMM).eval()
    loope.attach(model, "rope_mixed", keep_own=True)
    loope.set_strength(model, 0.3, own=0.6)
    args = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
    loope.save(model, tmp_path / "m.safetensors", model_args=args)
    again = loope.load(tmp_path / "m.safetensors")
    assert torch.equal(predict(again), predict(model))
    loope.set_strength(again, 0.9, own=0.1)
    again.load_state_dict(model.state_dict())
    assert torch.equal(predict(again), predict(model))


@pytest.mark.parametrize("encoder", ["sincos2d", "rope_axial", "irpe", "peg"])
def test_strength_changes_without_compiling_again(encoder):
    torch._dynamo.reset()
    model = attached("ViT", encoder)
    loope.set_strength(model, 0.5)
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(model, backend=counter)
    shown = images(model)
    with torch.no_grad():
        compiled(shown)
        first = counter.frame_count
        for strength in (0.0, 0.25, 1.0):
            loope.set_strength(model, strength)
            torch.testing.assert_close(compiled(shown), model(shown), rtol=1e-5, atol=1e-5)
    assert counter.frame_count == first


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan"), "1", None])
def test_bad_strengths_are_refused(strength):
    model = attached("ViT", "sincos2d")
    with pytest.raises(loope.LoopeError, match="from 0 to 1"):
        loope.set_strength(model, strength)


def test_the_own_strength_needs_the_own_encoding():
    model = attached("ViT", "sincos2d")
    with pytest.raises(loope.LoopeError, match="keep_own=True"):
        loope.set_strength(model, 1, own=0.5)


def test_a_pass_that_fails_leaves_no_scaled_table():
    model = attached("ViT", "sincos2d", keep_own=True)
    loope.set_strength(model, 1, own=0.5)
    twin, table = copy.deepcopy(model), model.pos_embed
    with pytest.raises(AssertionError):
        model(torch.zeros(1, 3, 7, 7))
    assert model.pos_embed is table
    copy.deepcopy(model)
    model.patch_embed(images(model))  # a part alone
    size = [2 * side for side in model.loope.branches[0].pixels]
    for each in (model, twin):
        loope.resize(each, size)
    assert torch.equal(dict(model.named_parameters())["pos_embed"], dict(twin.named_parameters())["pos_embed"])


@pytest.mark.parametrize("encoder", ["sincos2d", "alibi2d", "rope_axial", "rope_mixed"])
def test_baked_models_keep_their_strength(encoder):
    model = attached("ViT", encoder, keep_own=True)
    loope.set_strength(model, 0.5, own=0.25)
    before = predict(model)
    loope.bake(model, model.loope.branches[0].pixels)
    torch.testing.assert_close(predict(model), before, rtol=1e-6, atol=1e-6)


def test_strength_set_in_inference_mode_can_be_trained_with():
    model = attached("ViT", "rope_mixed", keep_own=True)
    with torch.inference_mode():
        loope.set_strength(model, 0.5, own=0.5)
    loope.set_strength(model, 0.7, own=0.7)
    output(model, images(model)).sum().backward()
    assert model.loope.encoders[0][0].frequencies.grad.abs().sum() > 0


@pytest.mark.parametrize("strengths", [[0.5], ["a", "b"], [2, 1], [float("nan"), 1], "ab", None, 0.5])
def test_strengths_of_a_damaged_checkpoint_are_refused(strengths):
    model = attached("ViT", "sincos2d")
    state = model.state_dict()
    state["loope._extra_state"] = specs.to_bytes({**model.loope.spec, "strengths": strengths})
    with pytest.raises(loope.LoopeError, match="strength"):
        model.load_state_dict(state)
    assert model.loope.strengths == (1.0, 1.0)


def test_strength_survives_casts_and_empty_memory():
    model = attached("ViT", "rope_axial", keep_own=True)
    loope.set_strength(model, 0.3, own=0.7)
    expected = torch.tensor(0.3), torch.tensor(0.7)
    model.bfloat16()
    assert output(model, images(model).bfloat16()).dtype == torch.bfloat16
    assert (model.loope.strength, model.loope.own_strength) == expected
    model.to("meta").to_empty(device="cpu")
    torch.testing.assert_close(model.loope.strength.float(), expected[0], rtol=0, atol=0)
    torch.testing.assert_close(model.loope.own_strength.float(), expected[1], rtol=0, atol=0)
