"""What holds for every supported class of timm."""

import pytest
import timm
import torch
from torch import Tensor, nn

import loope
from docs.matrix import images, predict, same_state, state_of
from tests.surgery.registry import LOCAL, ONE_SIZE, REFUSED, REGISTRY, make
from tests.surgery.test_permutations import Shuffle

KINDS = ["sincos2d", "rope_mixed", "irpe", "peg"]
FAST = {"RelPos, table", "SAM", "Differential, parallel", "Qwen3", "Swin"}  # what is special in each; the rest is slow


def as_slow(name: str, *more: str):
    """Mark what is not in `FAST`."""
    return pytest.param(name, *more, marks=[] if name in FAST else [pytest.mark.slow])


every_class = pytest.mark.parametrize("name", REGISTRY)
most_classes = pytest.mark.parametrize("name", [as_slow(name) for name in REGISTRY])
PAIRS = [(name, encoder) for name in REGISTRY for encoder in KINDS if (name, encoder) not in REFUSED]
every_pair = pytest.mark.parametrize(("name", "encoder"), PAIRS)
most_pairs = pytest.mark.parametrize(("name", "encoder"), [as_slow(*pair) for pair in PAIRS])
resizable = pytest.mark.parametrize(("name", "encoder"), [as_slow(*pair) for pair in PAIRS if pair[0] not in ONE_SIZE])


def attached(name: str, encoder: str, seed: int = 0, **options) -> nn.Module:
    model = loope.attach(make(name, seed), encoder, **options)
    torch.manual_seed(seed)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.3)  # some start from zero
    return model


@every_pair
def test_attach_acts_and_detach_restores(name, encoder):
    model = make(name)
    before, state = predict(model), state_of(model)
    loope.attach(model, encoder)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.3)
    bare = loope.attach(make(name), "none")
    assert predict(model).shape == before.shape
    assert not torch.allclose(predict(model), predict(bare), atol=1e-5)
    loope.detach(model)
    assert torch.equal(predict(model), before)
    assert same_state(model, state)


@every_class
def test_none_removes_all_positions(name):
    """Shuffled patches give the same, except where windows or merged neighbours depend on the place."""
    model = make(name).double()
    loope.attach(model, "none")
    pixels = images(model).double()
    straight = predict(model, pixels)
    branch = model.loope.branches[0]
    shuffle = Shuffle(branch.patch_embed, branch.patch_size, seed=3)
    moved = predict(model, pixels)
    assert not torch.equal(shuffle.order, torch.arange(len(shuffle.order)))
    if name in LOCAL:
        assert not torch.allclose(moved, straight)
    else:
        torch.testing.assert_close(moved, straight)


@resizable
def test_other_aspect_ratios_and_back(name, encoder):
    model = make(name)
    before, state = predict(model), state_of(model)
    loope.attach(model, encoder)
    there = predict(model)
    for size in [(32, 64), (64, 32), (32, 32)]:
        loope.resize(model, size)
        assert predict(model, images(model, size)).isfinite().all()
    torch.testing.assert_close(predict(model), there)
    loope.detach(model)
    assert torch.equal(predict(model), before)
    assert same_state(model, state)


@pytest.mark.parametrize("name", [as_slow(name) for name in REGISTRY if name not in ONE_SIZE])
def test_a_model_is_resized_without_an_encoder_and_after_one(name):
    """The own encoding of a model that was resized while attached is that of a model that was resized before."""
    straight, later = make(name), make(name)
    loope.resize(straight, (32, 64))
    loope.attach(later, "gilbert")
    loope.resize(later, (32, 64))
    loope.detach(later)
    pixels = images(later, (32, 64))
    assert torch.equal(predict(later, pixels), predict(straight, pixels))


@most_pairs
def test_strength_zero_is_the_original_bit_for_bit(name, encoder):
    model = make(name)
    before = predict(model)
    loope.attach(model, encoder, keep_own=True)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.3)
    assert not torch.equal(predict(model), before)
    loope.set_strength(model, 0)
    assert torch.equal(predict(model), before)


@most_classes
def test_the_own_encoding_fades(name):
    model = loope.attach(make(name), "none", keep_own=True)
    full = predict(model)
    loope.set_strength(model, 1, own=0)
    faded = predict(model)
    assert not torch.allclose(faded, full)
    torch.testing.assert_close(faded, predict(loope.attach(make(name), "none")), rtol=1e-4, atol=1e-5)


@most_pairs
@pytest.mark.parametrize("keep_own", [False, True])
def test_saved_and_loaded(name, encoder, keep_own, tmp_path):
    model = attached(name, encoder, keep_own=keep_own)
    path = loope.save(model, tmp_path / "m.safetensors", model_args=REGISTRY[name][1])
    loaded = loope.load(path)
    assert torch.equal(predict(loaded), predict(model))
    loope.detach(loaded)
    assert torch.equal(predict(loaded), predict(make(name)))


@most_pairs
def test_bfloat16(name, encoder):
    model = attached(name, encoder)
    exact = predict(model)
    rough = predict(model.bfloat16(), images(model).bfloat16())
    assert rough.dtype == torch.bfloat16
    correlation = torch.corrcoef(torch.stack((exact.flatten(), rough.float().flatten())))[0, 1]
    assert correlation > 0.95


def gradients(model: nn.Module) -> dict[str, Tensor]:
    model.zero_grad()
    model(images(model)).square().mean().backward()
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@most_pairs
def test_gradient_checkpointing(name, encoder):
    model = attached(name, encoder, prefix="learned")
    plain = gradients(model)
    assert any(key.startswith("loope.encoders") for key in plain) == any(
        True for _ in model.loope.encoders.parameters()
    )
    model.set_grad_checkpointing()
    again = gradients(model)
    assert plain.keys() == again.keys()
    for key in plain:
        torch.testing.assert_close(again[key], plain[key])


@most_pairs
def test_only_encoders_in_use_are_made(name, encoder):
    model = attached(name, encoder).train()
    gradients(model)
    for key, parameter in model.loope.named_parameters():
        assert (parameter.grad is not None and bool(parameter.grad.any())) != key.startswith("own"), key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAM", "RelPos", "Differential", "Qwen3", "Swin"])
@pytest.mark.parametrize("encoder", ["rope_mixed", "alibi2d"])
def test_compile(name, encoder):
    model = attached(name, encoder)
    expected = predict(model)
    torch.testing.assert_close(predict(torch.compile(model, backend="eager", fullgraph=True)), expected)


@pytest.mark.parametrize(("name", "encoder"), sorted(REFUSED))
def test_refusals_say_why_and_change_nothing(name, encoder):
    model = make(name)
    before, state = predict(model), state_of(model)
    with pytest.raises(loope.LoopeError, match=f"'{encoder}'.*Hiera.*(queries|order)"):
        loope.attach(model, encoder)
    assert torch.equal(predict(model), before)
    assert same_state(model, state)


@pytest.mark.parametrize(
    ("architecture", "reason"), [("xcit_nano_12_p16_224", "channels"), ("convit_tiny", "class token")]
)
def test_models_that_attend_in_another_way_are_refused(architecture, reason):
    with pytest.raises(loope.LoopeError, match=reason):
        loope.attach(timm.create_model(architecture), "gilbert")


def test_hierarchical_models_without_an_adapter_are_refused_by_their_grids():
    with pytest.raises(loope.LoopeError, match=r"PyramidVisionTransformerV2.*4, 8, 16, 32 pixels"):
        loope.attach(timm.create_model("pvt_v2_b0"), "gilbert")


def test_a_hiera_keeps_its_size():
    model = loope.attach(make("Hiera"), "gilbert")
    loope.resize(model, (32, 32))
    with pytest.raises(loope.LoopeError, match="img_size"):
        loope.resize(model, (64, 64))


def test_windows_refuse_positions_that_an_image_moves():
    with pytest.raises(loope.LoopeError, match="windows"):
        loope.attach(make("Swin"), "rope_axial", refine="image")


@most_pairs
def test_baking_keeps_the_output(name, encoder):
    model = attached(name, encoder)
    expected = predict(model)
    loope.bake(model, (32, 32))
    torch.testing.assert_close(predict(model), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["RelPos, table", "Swin"])
def test_a_bias_acts_as_the_models_own_table_with_the_same_values(name):
    """ALiBi depends on the offset of two patches, as a table of the model's own does, also in shifted windows."""
    ours, own = loope.attach(make(name), "alibi2d"), make(name)
    for number, branch in enumerate(ours.loope.branches):
        encoder = ours.loope.encoders_of(number)[0]
        blocks = own.layers[number].blocks if name == "Swin" else own.blocks
        for layer, block in enumerate(blocks):
            holder = block.attn if name == "Swin" else block.attn.rel_pos
            query = torch.zeros(1, branch.heads, holder.window_area, 1)
            bias = encoder.bias_with_prefix(query, holder.window_size, layer, branch.prefix)[0]
            values = torch.zeros(len(holder.relative_position_bias_table), branch.heads)
            values[holder.relative_position_index.flatten()] = bias.flatten(1).T
            holder.relative_position_bias_table.data = values
    assert not torch.allclose(predict(own), predict(make(name)), atol=1e-4)
    torch.testing.assert_close(predict(ours), predict(own))


@pytest.mark.parametrize("keep_own", [False, True])
@pytest.mark.parametrize("name", [as_slow(name) for name in REGISTRY if name not in ONE_SIZE])
def test_saved_and_loaded_at_another_size(name, keep_own, tmp_path):
    model = attached(name, "rope_mixed", keep_own=keep_own)
    loope.resize(model, (32, 64))
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=REGISTRY[name][1]))
    pixels = images(model, (32, 64))
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))
