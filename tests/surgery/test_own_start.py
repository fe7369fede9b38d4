"""`init="own"`: what each encoder takes over from the model's own encoding."""

import pytest
import torch
from torch import nn

import loope
from loope.encoders.regression import ridge
from loope.positions import Positions
from tests.surgery.models import MODELS, images, make, predict

ADDITIVE = [
    name
    for name in loope.list_encoders()
    if loope.create_encoder(name, 48, 4, patch_size=8, heads=3, depth=2).hooks() == ("embed",) and name != "none"
]
OTHERS = [name for name in loope.list_encoders() if name not in ADDITIVE and name.islower()]


def with_table(name="ViT"):
    """A model whose own table is smooth, as trained ones are: waves of few frequencies."""
    model = make(name)
    grid = Positions.grid(4, 4).coordinates[0]
    waves = torch.cat(
        [(grid * pace).sin() for pace in (0.2, 0.5, 0.9)] + [(grid * pace).cos() for pace in (0.2, 0.5, 0.9)], -1
    )
    with torch.no_grad():
        table = model.pos_embed
        table[0, -16:] = waves @ torch.randn(
            waves.shape[-1], table.shape[-1], generator=torch.Generator().manual_seed(0)
        )
    return model


@pytest.mark.parametrize("encoder", ADDITIVE)
def test_additive_encoders_are_fitted_to_the_table(encoder):
    model = with_table()
    own = model.pos_embed.detach()[0, 1:].clone()
    before = predict(model)
    report = loope.report(loope.attach(model, encoder, init="own", images=images(model)))
    made = model.loope.encoders[0][0]
    assert not report.keep_own
    assert report.set_aside == ["pos_embed"]
    vectors = made(images(model))[0].detach()
    left = (own - vectors).square().sum() / (own - own.mean(0)).square().sum()
    assert report.explained == pytest.approx(1 - float(left), abs=2e-3)
    if encoder != "sincos2d_sum":  # which gives (a, b) and (b, a) one vector
        # A curve jumps between neighbours, and its waves are no faster than a radian per cell.
        assert report.explained > (0.98 if getattr(made, "encoder", made).continuous else 0.8)
    after = predict(model)
    moved = float((after - before).norm() / before.norm())
    assert report.moved == pytest.approx(moved, rel=1e-3)
    assert report.agreement == float((after.argmax(-1) == before.argmax(-1)).float().mean())
    assert torch.equal(model.loope.prefixes["patches"][0, 0], model.loope.own.pos_embed[0, 0])
    loope.detach(model)
    assert torch.equal(predict(model), before)


@pytest.mark.parametrize("encoder", OTHERS)
@pytest.mark.parametrize("name", ["ViT", "EVA", "BEiT", "HF DeiT"])
def test_others_start_beside_the_own_encoding_without_any_effect(name, encoder):
    model = make(name)
    before = predict(model)
    report = loope.report(loope.attach(model, encoder, init="own"))
    assert report.keep_own
    assert torch.equal(predict(model), before)
    loope.set_strength(model, 1, own=0)
    if encoder != "irpe":  # which starts at zero
        assert not torch.equal(predict(model), before)


@pytest.mark.parametrize("encoder", ["sincos2d", "loope"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("NaFlexViT, rotary", "EVA, mixed rotary")])
def test_every_model_with_a_table(name, encoder):
    model = make(name)
    before = predict(model)
    loope.attach(model, encoder, init="own")
    if model.loope.spec["keep_own"]:  # it has rotary or relative positions beside its table
        assert torch.equal(predict(model), before)
    else:
        assert loope.report(model).explained > 0
    loope.detach(model)
    assert torch.equal(predict(model), before)


def test_learned_tables_are_copied_exactly():
    for encoder, options in (("learned", {}), ("loope", {"policy": "table"})):
        model = with_table()
        before = predict(model)
        assert loope.report(loope.attach(model, encoder, init="own", **options)).explained == 1
        torch.testing.assert_close(predict(model), before, rtol=0, atol=1e-6)


def test_the_regression_is_least_squares():
    torch.manual_seed(0)
    inputs, outputs = torch.randn(30, 5).double(), torch.randn(30, 3).double()
    ours = ridge(inputs, outputs)
    slow = torch.linalg.lstsq(torch.cat((inputs, torch.ones(30, 1).double()), 1), outputs).solution
    torch.testing.assert_close(ours.weight, slow[:5], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.bias, slow[5], rtol=1e-6, atol=1e-6)
    left = (outputs - inputs @ slow[:5] - slow[5]).square().sum() / (outputs - outputs.mean(0)).square().sum()
    torch.testing.assert_close(ours.explained, 1 - left)


def test_loope_at_another_size_is_the_static_curve_until_it_has_learned():
    vectors = []
    for encoder in ("gilbert", "loope"):
        model = loope.attach(with_table(), encoder, init="own").eval()
        loope.resize(model, (48, 64))
        vectors.append(model.loope.encoders[0][0](images(model, (48, 64))).detach())
    torch.testing.assert_close(vectors[1], vectors[0].expand_as(vectors[1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("encoder", ["sincos2d", "gilbert", "fourier", "sinusoid"])
def test_other_sizes_stay_in_the_range_that_was_fitted(encoder):
    """At twice the size, patches lie between those of the fitted grid, and so do their vectors."""
    model = with_table()
    loope.attach(model, encoder, init="own")
    made = model.loope.encoders[0][0]
    small = made(None).detach()[0].view(4, 4, -1)
    loope.resize(model, (64, 64))
    large = made(None).detach()[0].view(8, 8, -1)
    pooled = nn.functional.avg_pool2d(large.permute(2, 0, 1), 2).permute(1, 2, 0)
    inner = (slice(1, 3), slice(1, 3))
    error = (pooled - small)[inner].norm() / (small - small.mean((0, 1)))[inner].norm()
    assert error < 0.35
    loope.resize(model, (32, 32))
    torch.testing.assert_close(made(None).detach()[0].view(4, 4, -1), small)


def test_a_fitted_model_is_saved(tmp_path):
    model = with_table()
    loope.attach(model, "gilbert", init="own")
    from tests.surgery.models import TIMM

    args = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
    loope.save(model, tmp_path / "m.safetensors", model_args=args)
    again = loope.load(tmp_path / "m.safetensors")
    assert torch.equal(predict(again), predict(model))
    loope.resize(again, (48, 48))
    loope.resize(model, (48, 48))
    pixels = images(model, (48, 48))
    assert torch.equal(predict(again, pixels), predict(model, pixels))


def test_the_projection_is_trained():
    model = with_table()
    loope.attach(model, "sincos2d", init="own", freeze_backbone=True)
    model(images(model)).square().sum().backward()
    trained = {name for name, each in model.named_parameters() if each.grad is not None}
    assert any("projection.weight" in name for name in trained)
    assert all(name.startswith("loope.") for name in trained)


def test_images_that_fail_after_all_leave_the_model_alone():
    """A hook that fails from the second pass on: the first is that of the model with its own table."""
    model, passes = make("ViT"), []

    def fail_later(module, args):
        passes.append(args)
        if len(passes) > 1:
            raise RuntimeError("out of memory")

    model.register_forward_pre_hook(fail_later)
    with pytest.raises(loope.LoopeError, match="out of memory"):
        loope.attach(model, "sincos2d", init="own", images=torch.rand(1, 3, 32, 32))
    assert not hasattr(model, "loope")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: loope.attach(make("ViT"), "sincos2d", init="random"), "own"),
        (lambda: loope.attach(make("ViT"), ["sincos2d", "peg"], init="own"), "one encoder"),
        (lambda: loope.attach(make("ViT"), "sincos2d", init="own", keep_own=True), "keep_own"),
        (lambda: loope.attach(make("ViT"), "loope", init="own", zero_init=False), "zero_init"),
        (lambda: loope.attach(zeros(make("ViT")), "sincos2d", init="own"), "zeros"),
        (lambda: loope.attach(zeros(make("ViT")), "rope_axial", init="own"), "zeros"),
        (lambda: loope.attach(broken(make("ViT")), "sincos2d", init="own"), "NaN"),
        (lambda: loope.attach(make("ViT"), "sincos2d", init="own", images=torch.rand(1, 3, 5, 5)), "images"),
        (lambda: loope.create_encoder("peg", 16, 4, project=True), "additive"),
    ],
)
def test_bad_starts_are_refused(change, message):
    with pytest.raises(loope.LoopeError, match=message):
        change()


def test_a_refused_start_leaves_the_model_alone():
    model = broken(make("ViT"))
    names = list(model.state_dict())
    with pytest.raises(loope.LoopeError):
        loope.attach(model, "sincos2d", init="own")
    assert list(model.state_dict()) == names
    assert not hasattr(model, "loope")


def zeros(model):
    nn.init.zeros_(model.pos_embed)
    return model


def broken(model):
    with torch.no_grad():
        model.pos_embed[0, 3, 0] = float("nan")
    return model
