"""The whole matrix: every encoder in every model."""

import copy
import io

import pytest
import torch
from safetensors.torch import load, save

import loope
from tests.surgery.matrix import check, every_encoder, every_model, same_state, state_of
from tests.surgery.models import images, loss, make, predict


@every_model
@every_encoder
def test_attach_acts_and_detach_restores(name, encoder):
    assert check(name, encoder) == "yes"


@every_model
@every_encoder
def test_keep_own_adds_to_the_models_own_encoding(name, encoder):
    model = make(name)
    before, state = predict(model), state_of(model)
    report = loope.report(loope.attach(model, encoder, keep_own=True))
    assert report.parameters_set_aside == 0
    assert set(state) <= set(model.state_dict())
    kept = predict(model)
    # `none` adds nothing, and neither does iRPE, whose tables start from zero. The latter also checks that attention is
    # computed as by the model itself.
    if encoder in {"none", "irpe"}:
        torch.testing.assert_close(kept, before, atol=1e-4, rtol=1e-4)
    else:
        assert not torch.equal(kept, before)
    alone = make(name)
    loope.attach(alone, encoder)
    assert not torch.equal(predict(alone), kept)
    loope.detach(model)
    assert torch.equal(predict(model), before)
    assert same_state(model, state)


@every_model
@every_encoder
def test_other_sizes_and_back(name, encoder):
    model = make(name)
    start = images(model).shape[-2:]
    before, state = predict(model), state_of(model)
    loope.attach(model, encoder)
    attached, side = predict(model), start[0]
    for size in [(2 * side, 2 * side), (side, 3 * side), (3 * side, side), tuple(start)]:
        loope.resize(model, size)
        assert predict(model, images(model, size)).isfinite().all()
    if encoder not in {"learned", "loope", "factorized"}:  # learned parameters of a grid are resampled
        torch.testing.assert_close(predict(model), attached)
    loope.detach(model)
    assert torch.equal(predict(model), before)
    assert same_state(model, state)


@every_model
@pytest.mark.parametrize(
    "encoder", ["gilbert", "sincos2d", "fourier", "alibi2d", "irpe", "rope_axial", "rope_mixed", "peg"]
)
def test_grids_of_equal_size_differ(name, encoder):
    """Grids of 8x8, 4x16 and 16x4 all have 64 patches; none of these encoders has parameters of a grid."""
    model = make(name)
    side = images(model).shape[-1]
    loope.attach(model, encoder)
    straight = copy.deepcopy(model)
    loope.resize(straight, (side, 4 * side))
    wide = images(model, (side, 4 * side))
    expected = predict(straight, wide)
    for size in [(2 * side, 2 * side), (4 * side, side), (side, 4 * side)]:
        loope.resize(model, size)
        assert predict(model, images(model, size)).isfinite().all()
    assert torch.equal(predict(model, wide), expected)


@every_model
@every_encoder
def test_copies_are_complete_and_independent(name, encoder):
    model = make(name)
    before = predict(model)
    loope.attach(model, encoder, prefix="learned")
    attached = predict(model)
    twin = copy.deepcopy(model)
    assert torch.equal(predict(twin), attached)
    with torch.no_grad():
        for parameter in twin.loope.parameters():
            parameter.add_(1)
    assert torch.equal(predict(model), attached)
    second = copy.deepcopy(model)
    loope.detach(second)
    assert torch.equal(predict(second), before)
    assert torch.equal(predict(model), attached)


@every_model
def test_learned_from_the_models_own_table_reproduces_it_exactly(name):
    model = make(name)
    before = predict(model)
    tables = [key for key in model.state_dict() if "pos_embed" in key or "position_embeddings" in key]
    if not tables:
        loope.attach(model, "learned", init="own")  # beside the own encoding, which is no table, with strength 0
        assert loope.report(model).keep_own
        assert torch.equal(predict(model), before)
        return
    # Beside other parts of the own encoding (a bias, a rotary) the table alone is not copied.
    for module in model.modules():
        for attribute in ("rope", "rel_pos_bias"):
            if getattr(module, attribute, None) is not None:
                setattr(module, attribute, None)
                before = predict(model)
    loope.attach(model, "learned", init="own")
    assert torch.equal(predict(model), before)
    loope.detach(model)
    assert torch.equal(predict(model), before)


@every_model
@every_encoder
def test_only_what_should_train_gets_gradients(name, encoder):
    model = make(name).train()
    had = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
    loope.attach(model, encoder, prefix="learned", **({"activation": "gelu"} if encoder == "loope" else {}))
    loss(model, images(model)).backward()
    for key, parameter in model.named_parameters():
        if key.startswith("loope.own"):
            assert not parameter.requires_grad
            assert parameter.grad is None
        elif key.startswith("loope."):
            assert parameter.grad is not None, key
            assert parameter.grad.any(), key
    loope.detach(model)
    assert {key for key, parameter in model.named_parameters() if parameter.requires_grad} == had


@every_model
@every_encoder
def test_autocast(name, encoder):
    model = make(name)
    loope.attach(model, encoder)
    exact = predict(model)
    with torch.autocast("cpu", torch.bfloat16):
        rough = predict(model)
    assert rough.isfinite().all()
    correlation = torch.corrcoef(torch.stack((exact.flatten().float(), rough.flatten().float())))[0, 1]
    assert correlation > 0.95


@every_model
@every_encoder
def test_state_dicts_load_only_into_the_same_attachment(name, encoder):
    source, wrong = make(name), make(name)
    other = "sincos2d" if encoder != "sincos2d" else "gilbert"
    for model, chosen in ((source, encoder), (wrong, other)):
        loope.attach(model, chosen)
    safe = load(save({key: value.contiguous() for key, value in source.state_dict().items()}))
    torch.save(source.state_dict(), pickled := io.BytesIO())
    pickled.seek(0)
    for seed, state in enumerate((safe, torch.load(pickled, weights_only=True)), start=1):
        target = make(name, seed)
        loope.attach(target, encoder)
        assert not torch.equal(predict(target), predict(source))
        target.load_state_dict(state)
        assert torch.equal(predict(target), predict(source))
    with pytest.raises(
        loope.LoopeError, match=f"has '{other}' attached, but the checkpoint was saved with '{encoder}'"
    ):
        wrong.load_state_dict(safe)


@every_model
@every_encoder
def test_freezing_keeps_the_output(name, encoder):
    model = make(name)
    loope.attach(model, encoder)
    expected = predict(model)
    loope.bake(model, tuple(images(model).shape[-2:]))
    torch.testing.assert_close(predict(model), expected, atol=1e-5, rtol=1e-5)
