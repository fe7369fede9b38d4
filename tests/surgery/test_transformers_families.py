"""Every family of transformers that encoders attach to, and what contains one: the promises that hold for all."""

import copy

import pytest
import torch
from torch import nn

import loope
from loope.surgery.adapters.base import adapter_for
from loope.surgery.adapters.transformers import families
from tests.surgery.matrix import same_state, state_of
from tests.surgery.test_permutations import permuted_patches
from tests.surgery.transformers_models import CORES, HEADS, MODELS, PATCH, inputs, make, output, predict

# Families with the code of another one, and heads on a family: `make test` covers one of a kind.
COPIES = {
    "ViTMSN",
    "MetaCLIP 2",
    "Chinese CLIP",
    "AltCLIP",
    "CLIPSeg",
    "OWLv2",
    "TIPSv2",
    "SiglipModel",
    "HF SAM-HQ",
} | {
    name
    for name in HEADS
    if name.endswith("ForImageClassification") and not name.startswith(("CLIP", "Timm", "Siglip2"))
}


def models(names):
    marks = {name: [pytest.mark.slow] if name in COPIES else [] for name in names}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in names])


every_core, every_model = models(CORES), models(MODELS)
KINDS = ["learned", "peg", "irpe", "rope_mixed"]  # additive, conditional, bias, rotary
ACTING = ["irpe", "rope_mixed"]  # in attention
ONLY_SQUARE = {"CLIP", "MetaCLIP 2", "Chinese CLIP", "AltCLIP"}  # unless they interpolate
INTERPOLATE = ["ViT", "DeiT", "ViTMSN", "ViTMAE", "IJepa", "OWL-ViT", "OWLv2", "SigLIP", *sorted(ONLY_SQUARE)]
WINDOWS = {"HF SAM", "HF SAM-HQ", "HF Swin", "HF Swin, table"}
TABLES = [name for name in CORES if name not in {"DINOv3", "MLCD", "BEiT", "Data2Vec"} and "bias" not in name]
TABLES = [name for name in TABLES if name not in {"YOLOS, tables in blocks", "ViTDet", *WINDOWS}]
# What becomes of a patch depends on its place: ViTMAE drops some, others have windows; see test_transformers_windows.
LOCAL = {"ViTMAE", "ViTDet", *WINDOWS}


def attached(name, encoder, **options):
    model = loope.attach(make(name), encoder, **options)
    torch.manual_seed(1)
    for parameter in [*model.loope.encoders.parameters(), *model.loope.prefixes.parameters()]:
        nn.init.normal_(parameter, std=0.3)  # some start from zero
    return model


def test_every_family_is_here():
    shown = {type(adapter_for(make(name)).core).__name__ for name in CORES}
    listed = {name for cores in families().values() for name in cores if not name.endswith("Backbone")}
    assert shown == listed


@every_model
def test_encoders_change_the_output_and_leave_no_trace(name):
    model = make(name)
    before, state = predict(model), state_of(model)
    seen = [before]
    for encoder in ("none", *KINDS):
        torch.manual_seed(1)
        loope.attach(model, encoder)
        for parameter in model.loope.encoders.parameters():
            nn.init.normal_(parameter, std=0.3)
        seen.append(predict(model))
        assert seen[-1].isfinite().all()
        assert not any(torch.equal(seen[-1], other) for other in seen[:-1]), encoder
        loope.detach(model)
        assert torch.equal(predict(model), before), encoder
        assert same_state(model, state), encoder


@models([name for name in CORES if name not in LOCAL])
def test_without_positions_the_order_of_patches_does_not_matter(name):
    model = loope.attach(make(name).double(), "none")
    shown = inputs(model, dtype=torch.float64)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(3))
    if "spatial_shapes" in shown:
        moved = {**shown, "pixel_values": shown["pixel_values"][:, order]}
    else:
        moved = {"pixel_values": permuted_patches(shown["pixel_values"], order, PATCH)}
    with torch.no_grad():
        straight, permuted = model(**shown)[0], model(**moved)[0]
    branch = model.loope.branches[0]
    straight, permuted = (branch.channels_last(each).flatten(1, -2) for each in (straight, permuted))
    others, patches = branch.split(straight)
    expected = branch.join(others, patches[:, order])
    torch.testing.assert_close(permuted, expected, rtol=0, atol=1e-12)
    loope.detach(model)
    with torch.no_grad():
        own = branch.channels_last(model(**moved)[0]).flatten(1, -2)
    assert (own - expected).abs().max() > 1e-7


@every_core
@pytest.mark.parametrize("encoder", KINDS)
def test_at_strength_zero_the_encoder_is_not_there(name, encoder):
    model = attached(name, encoder, keep_own=True, prefix="learned" if encoder == "learned" else None)
    loope.set_strength(model, 0)
    without = predict(model)
    loope.set_strength(model, 1)
    full = predict(model)
    loope.detach(model)
    assert torch.equal(without, predict(model))
    assert not torch.equal(full, without)


@every_core
def test_the_own_encoding_has_a_strength(name):
    model = attached(name, "none", keep_own=True)
    full = predict(model)
    loope.set_strength(model, 1, own=0.5)
    half = predict(model)
    loope.set_strength(model, 1, own=0)
    none = predict(model)
    loope.set_strength(model, 1, own=1)
    assert torch.equal(predict(model), full)
    assert not torch.equal(half, full)
    assert not torch.equal(half, none)
    loope.detach(model)
    torch.testing.assert_close(predict(loope.attach(model, "none")), none, rtol=1e-5, atol=1e-6)


@every_core
@pytest.mark.parametrize("keep_own", [False, True])
def test_resize(name, keep_own, tmp_path):
    size = (48, 48) if name in ONLY_SQUARE else (48, 40)
    model = attached(name, ["learned", "irpe"], keep_own=keep_own)
    loope.resize(model, size)
    out = predict(model, size)
    assert model.loope.encoders[0][0].grid == (size[0] // PATCH, size[1] // PATCH)
    if size[0] == size[1] or not keep_own or model.loope.host.adapter.family.square is False:
        loaded = loope.load(loope.save(model, tmp_path / "m.safetensors"))
        assert torch.equal(predict(loaded, size), out)
    twin = copy.deepcopy(model)
    loope.resize(twin, (32, 32))
    predict(twin)
    if not keep_own:
        loope.detach(twin)
        assert torch.equal(predict(twin), predict(make(name)))


@pytest.mark.parametrize("name", ["Dinov2", "DINOv3", "YOLOS", "ViTDet"])
@pytest.mark.parametrize("encoder", ["sincos2d", "loope", "rope_mixed", "irpe", "peg"])
def test_images_are_cropped_to_whole_patches(name, encoder):
    """As the convolution that embeds patches does; a detector's images have any size."""
    model = attached(name, encoder)
    pixels = torch.randn(2, 3, 45, 37)
    with torch.no_grad():
        torch.testing.assert_close(model(pixels)[0], model(pixels[..., :40, :32])[0])


@models(INTERPOLATE)
def test_interpolate_pos_encoding(name):
    model, size = attached(name, ["sincos2d", "rope_axial", "alibi2d"]), (48, 64)  # none of these is resampled
    expected = predict(model, size, interpolate_pos_encoding=True)
    if name in ONLY_SQUARE:
        loope.resize(model, (64, 64))
        torch.testing.assert_close(predict(model, size, interpolate_pos_encoding=True), expected)
        return
    for other in (size, (64, 40), (32, 32)):  # its position table then has that size
        loope.resize(model, other)
        torch.testing.assert_close(predict(model, size, interpolate_pos_encoding=True), expected)
        predict(model, other)


@models([name for name in INTERPOLATE if name not in ONLY_SQUARE])
def test_the_own_table_of_another_aspect_ratio_is_interpolated(name):
    model = make(name)
    loope.resize(model, (48, 64))
    expected = predict(model, (48, 64))
    assert torch.equal(predict(model, (48, 64), interpolate_pos_encoding=True), expected)
    twin = copy.deepcopy(model)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(predict(twin, (48, 64), interpolate_pos_encoding=True), expected)
    assert predict(twin, (32, 64), interpolate_pos_encoding=True).isfinite().all()


@models(sorted(ONLY_SQUARE))
def test_a_square_model_says_how_to_show_it_other_images(name):
    model = attached(name, "learned")
    before = predict(model)
    with pytest.raises(loope.LoopeError, match="interpolate_pos_encoding=True"):
        loope.resize(model, (48, 32))
    assert torch.equal(predict(model), before)


@every_model
def test_save_and_load(name, tmp_path):
    model = attached(name, ["learned", "rope_mixed"], prefix="learned")
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors"))
    assert type(loaded) is type(model)
    assert same_state(loaded, state_of(model))
    assert torch.equal(predict(loaded), predict(model))
    loope.detach(loaded)
    assert torch.equal(predict(loaded), predict(make(name)))


@models(TABLES)
def test_a_table_starts_from_the_models_own(name):
    model = make(name)
    before = predict(model)
    loope.attach(model, "learned", init="own")
    assert loope.report(model).explained == 1
    torch.testing.assert_close(predict(model), before, rtol=1e-5, atol=1e-5)


@every_core
def test_half_precision(name):
    model = attached(name, ["sincos2d", "rope_mixed", "alibi2d"]).bfloat16()
    out = predict(model)
    assert out.dtype == torch.bfloat16
    assert out.isfinite().all()


@every_core
@pytest.mark.parametrize("encoder", KINDS)
def test_gradient_checkpointing(name, encoder):
    gradients = []
    for checkpointing in (False, True):
        model = attached(name, encoder).train()
        if checkpointing:
            model.activation_checkpointing_enable()
        torch.manual_seed(2)
        output(model).square().sum().backward()
        gradients.append([each.grad for each in model.loope.encoders.parameters()])
    assert any(each.abs().max() > 0 for each in gradients[0])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "name", ["DINOv3", "CLIP", "BEiT", "Data2Vec", "SigLIP 2", "YOLOS", "ViTDet", "HF SAM", "HF Swin"]
)
@pytest.mark.slow
def test_compile(name):
    torch._dynamo.reset()
    model = attached(name, ["sincos2d", "rope_axial", "alibi2d"])
    expected = predict(model)
    # SigLIP 2 is given the sizes of the images as a tensor, which no graph can depend on.
    compiled = torch.compile(model, backend="aot_eager", fullgraph=name != "SigLIP 2")
    with torch.no_grad():
        torch.testing.assert_close(compiled(**inputs(model))[0], expected, rtol=1e-5, atol=1e-5)


@every_core
@pytest.mark.parametrize("encoder", ACTING)
def test_eager_attention_agrees_with_sdpa(name, encoder):
    model = attached(name, encoder)
    expected = predict(model)
    if name.startswith(("Data2Vec", "HF SAM")):  # they choose a class when they are built
        model.config._attn_implementation = "eager"
    else:
        model.set_attn_implementation("eager")
    torch.testing.assert_close(predict(model), expected, rtol=1e-4, atol=1e-5)


@every_core
def test_what_is_trained_is_used(name):
    """DDP refuses trained parameters without gradients."""
    model = attached(name, ["learned", "rope_mixed", "irpe", "peg"], prefix="learned").train()
    torch.manual_seed(2)
    output(model).square().sum().backward()
    for key, parameter in model.loope.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, key
        assert parameter.requires_grad == (not key.startswith("own.")), key


@models([name for name in CORES if name != "ViTMAE"])  # a baked model has all patches
def test_baked_models_agree(name):
    model = attached(name, ["sincos2d", "rope_mixed", "alibi2d"])
    expected = predict(model)
    loope.bake(model, (32, 32))
    torch.testing.assert_close(predict(model), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["DINOv3", "Data2Vec", "CLIP", "YOLOS", "ViTDet"])
def test_transfer(name):
    model = loope.attach(make(name), "rope_mixed", init="own")
    images = inputs(model)["pixel_values"]
    own = predict(make(name))
    assert torch.equal(predict(model), own)
    loope.transfer(model, [images], steps=2)
    assert not loope.report(model).keep_own
    assert not torch.equal(predict(model), own)
