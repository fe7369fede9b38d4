"""Rows and columns read out of tokens."""

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.diagnostics.probe import add_moments, solve, targets
from tests.diagnostics.reference import ridge
from tests.surgery.models import MODELS, images, make, vit

NOISE = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_the_reference_agrees():
    grid = Grid(3, 4)
    tokens = torch.randn(6, grid.size, 5) * torch.tensor([1.0, 10, 0.1, 1, 0]) + 7  # the last one is constant
    moments = add_moments(add_moments([], [tokens[:2]], targets(grid)), [tokens[2:]], targets(grid))
    found = solve(moments[0], 0.01)
    mean, weights = ridge(tokens.flatten(0, 1), targets(grid).repeat(6, 1), 0.01)
    torch.testing.assert_close(found.mean, mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.weights, weights, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.predict(tokens), (tokens.double() - mean) @ weights, rtol=1e-3, atol=1e-4)


def test_targets_are_rows_and_columns_from_the_centre():
    assert targets(Grid(2, 3)).tolist() == [[-0.5, -1], [-0.5, 0], [-0.5, 1], [0.5, -1], [0.5, 0], [0.5, 1]]


@pytest.mark.parametrize("layers", [1, 2])
def test_without_positions_nothing_beats_chance(layers):
    """Patches of noise say nothing of their place, and the blocks treat all places alike."""
    model = loope.attach(vit(depth=layers), "none")
    found = loope.position_probe(model, NOISE.split(16))
    assert found.layers == ["pixels", "input", *(f"block {number}" for number in range(1, layers + 1))]
    assert found.r2.max() < 0.02
    assert (found.error > found.chance - 0.05).all()
    assert (found.train_images, found.test_images) == (48, 16)


def test_positions_are_read_from_every_layer():
    model = loope.attach(vit(), "sincos2d")
    found = loope.position_probe(model, (NOISE * 0.2).split(16))
    assert found.r2[0] < 0.02
    assert found.r2[1:].min() > 0.95
    assert found.error[1:].max() < 0.5 < found.chance


def test_padding_leaks_the_border():
    """`peg` is a convolution with zero padding: it knows where the border is, and nothing else does."""
    torch.manual_seed(0)
    model = loope.attach(vit(depth=2), "peg")
    for parameter in model.loope.parameters():
        torch.nn.init.normal_(parameter)
    torch.nn.init.constant_(model.patch_embed.proj.bias, 1.0)
    found = loope.position_probe(model, (NOISE * 0.2).split(16))
    assert found.r2[1] < 0.02 < 0.1 < found.r2[2]


def test_pixels_that_tell_the_place_are_reported():
    ramp = torch.linspace(0, 1, 32)[:, None].expand(3, 32, 32)
    found = loope.position_probe(loope.attach(vit(), "none"), (NOISE * 0.01 + ramp).split(16))
    assert 0.4 < found.r2[0] < 0.55  # rows, not columns: half of the variance


@pytest.mark.parametrize("name", ["NaFlexViT", "CrossViT", "HF DeiT", "SETR", "CaiT"])
def test_models_of_every_kind(name):
    assert name in MODELS
    model = make(name)
    found = loope.position_probe(model, images(model, batch=8).split(3))
    assert found.r2.isfinite().all()
    assert found.error.isfinite().all()
    assert (found.train_images, found.test_images) == (6, 2)


def test_chance_is_the_distance_to_the_centre():
    found = loope.position_probe(vit(), NOISE[:8])
    rows, columns = (each - 1.5 for each in torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij"))
    assert found.chance == pytest.approx(float((rows**2 + columns**2).sqrt().mean()))
