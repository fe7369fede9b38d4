"""Shifted positions, shifted images, other sizes."""

import pytest
import torch

import loope
from loope import LoopeError
from tests.surgery.models import MODELS, images, make, vit

PIXELS = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("encoder", "moves"), [("rope_axial", False), ("alibi2d", False), ("sincos2d", True)])
def test_only_absolute_positions_feel_a_shift(encoder, moves):
    """Without a class token: that is not rotated, so patches are seen from it at absolute angles."""
    found = loope.shift_sensitivity(
        loope.attach(make("ViT, no class token"), encoder), PIXELS.split(3), cells=[1, 2, 9]
    )
    assert found.cells == [1, 2]
    assert (found.positions.max() > 0.01) == moves
    assert (found.outputs.max() > 1e-3) == moves
    assert moves or found.answers.min() == 1


def test_the_own_table_is_shifted_and_restored():
    model = make("ViT, registers")
    before = model.pos_embed.detach().clone()
    found = loope.shift_sensitivity(model, PIXELS, cells=[1])
    assert torch.equal(model.pos_embed, before)
    grid = before[0, 5:].view(4, 4, -1)
    rows = torch.tensor([1, 2, 3, 3])
    moved = grid[rows][:, rows]
    with torch.no_grad():
        patches = model.patch_embed(PIXELS) + before[:, 5:]
    wanted = 4 * (moved - grid).square().sum() / patches.square().sum()
    assert float(found.positions[0, 0]) == pytest.approx(float(wanted.sqrt()), rel=1e-4)


def test_own_rotary_encodings_cannot_be_shifted_as_data():
    found = loope.shift_sensitivity(make("EVA"), PIXELS, cells=[1])
    assert (found.positions, found.outputs, found.answers) == (None, None, None)
    assert found.equivariance.shape == (1, 3)


def test_without_positions_tokens_move_with_the_image():
    found = loope.shift_sensitivity(loope.attach(vit(), "none"), PIXELS, cells=[1, 3])
    torch.testing.assert_close(found.equivariance, torch.ones(2, 3).double(), rtol=0, atol=1e-5)
    positioned = loope.shift_sensitivity(loope.attach(vit(), "sincos2d"), PIXELS, cells=[1, 3])
    assert positioned.equivariance.max() < 0.99


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_shifted(name):
    model = make(name)
    found = loope.shift_sensitivity(model, images(model), cells=[1])
    assert found.equivariance.isfinite().all()


def test_shifts_must_fit():
    with pytest.raises(LoopeError, match="below 4"):
        loope.shift_sensitivity(vit(), PIXELS, cells=[4])
    with pytest.raises(LoopeError, match="no images"):
        loope.shift_sensitivity(vit(), [])


@pytest.mark.parametrize("name", ["ViT", "EVA", "CrossViT", "HF ViT", "BEiT"])
def test_a_model_agrees_with_itself_at_its_own_size(name):
    model = make(name)
    pixels = images(model, batch=4)
    own, side = pixels.shape[-1], 12 if name == "CrossViT" else 8
    curve = loope.resolution_curve(model, pixels.split(2), [own, own + 4 * side])
    assert curve.own == (own, own)
    assert curve.agreement[0] == 1
    assert curve.cosine[0] == pytest.approx(1)
    assert curve.cosine[1] < 0.9999
    assert curve.accuracy is None


def test_accuracy_counts_labels():
    model = loope.attach(make("ViT"), "sincos2d")
    with torch.no_grad():
        answers = model(PIXELS).argmax(-1)
    wrong = answers.clone()
    wrong[0] = (wrong[0] + 1) % 5
    curve = loope.resolution_curve(model, [(PIXELS, wrong)], [32, (24, 48)])
    assert float(curve.accuracy[0]) == 0.75
    assert model.patch_embed.grid_size == (4, 4)  # the model itself stays
    with pytest.raises(LoopeError, match="4 images"):
        loope.resolution_curve(model, [(PIXELS, wrong[:2])], [32])
    with pytest.raises(LoopeError, match="multiple"):
        loope.resolution_curve(model, [PIXELS], [33])
    with pytest.raises(LoopeError, match="classifier"):
        loope.resolution_curve(make("HF ViTModel"), [PIXELS], [32])
