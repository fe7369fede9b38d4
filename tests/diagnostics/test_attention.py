"""How far heads look, and how fast rotary pairs turn."""

import math

import pytest
import timm
import torch
from transformers import ViTConfig, ViTModel

import loope
from loope import LoopeError
from loope.core.grid import Grid
from loope.diagnostics.attention import AttentionDistance, cell_distances, sums
from tests.surgery.models import HF, MODELS, TIMM, images, make, vit


def slow_distance(weights, grid, prefix):
    """Mean distance and attention to the prefix of (B, heads, T, T) weights, in loops."""
    count, heads, length, _ = weights.shape
    found = torch.zeros(2, heads).double()
    for b in range(count):
        for head in range(heads):
            for i in range(prefix, length):
                row = weights[b, head, i].double()
                inside, here = float(row[prefix:].sum()), divmod(i - prefix, grid.width)
                far = sum(
                    float(row[j]) * math.dist(here, divmod(j - prefix, grid.width)) for j in range(prefix, length)
                )
                found[0, head] += far / inside / grid.size
                found[1, head] += (1 - inside) / grid.size
    return found


def test_the_reference_agrees():
    grid = Grid(2, 3)
    weights = torch.randn(2, 3, 8, 8).softmax(-1)
    torch.testing.assert_close(sums(weights, grid, 2), slow_distance(weights, grid, 2))
    metric = AttentionDistance(1, 3, grid, 2)
    metric.update([weights[:1]])
    metric.update([weights[1:]])
    torch.testing.assert_close(metric.compute().distance[0], slow_distance(weights, grid, 2)[0] / 2)


def test_uniform_attention_has_the_uniform_distance():
    model = vit()
    for block in model.blocks:
        torch.nn.init.zeros_(block.attn.qkv.weight)
    found = loope.attention_distance(model, torch.randn(2, 3, 32, 32))
    torch.testing.assert_close(found.distance, torch.full((2, 3), found.uniform).double())
    torch.testing.assert_close(found.prefix, torch.full((2, 3), 1 / 17).double(), rtol=1e-4, atol=1e-6)
    assert found.uniform == pytest.approx(float(cell_distances(Grid(4, 4)).mean()))


@pytest.mark.parametrize("name", MODELS)
def test_attention_of_every_model_is_seen(name):
    model = make(name)
    pixels = images(model, batch=3)
    found = loope.attention_distance(model, pixels.split(2))
    assert found.images == 3
    assert (found.distance > 0).all()
    assert (found.prefix >= -1e-6).all()


def test_fused_and_eager_attention_agree():
    pixels = torch.randn(2, 3, 32, 32)
    model = make("ViT")
    fused = loope.attention_distance(model, pixels)
    for block in model.blocks:
        block.attn.fused_attn = False
    torch.testing.assert_close(loope.attention_distance(model, pixels).distance, fused.distance)
    torch.manual_seed(0)
    model = ViTModel(ViTConfig(**HF))
    fused = loope.attention_distance(model, pixels)
    model.set_attn_implementation("eager")
    torch.testing.assert_close(loope.attention_distance(model, pixels).distance, fused.distance)


def test_a_bias_that_favours_the_near_shortens_the_distance():
    model, pixels = vit(), torch.randn(2, 3, 32, 32)
    before = loope.attention_distance(model, pixels).distance
    after = loope.attention_distance(loope.attach(model, "alibi2d"), pixels).distance
    assert (after.mean(1) < before.mean(1)).all()


def test_frequencies_of_an_encoder_are_those_it_was_made_with():
    encoder = loope.create_encoder("rope_axial", dim=32, grid=(6, 8), heads=2, temperature=100.0)
    found = loope.rotary_spectrum(encoder)
    bands = 100.0 ** (-torch.arange(4) / 4).double()
    wanted = torch.cat((torch.stack((bands, bands * 0), -1), torch.stack((bands * 0, bands), -1)))
    torch.testing.assert_close(found.frequencies[0, 0], wanted, rtol=1e-4, atol=1e-5)
    assert (found.layout, found.directions) == ("interleaved", 2)
    turns = [float(band) * side / (2 * math.pi) for side in (6, 8) for band in bands]
    torch.testing.assert_close(found.turns[0, 1], torch.tensor(turns).double(), rtol=1e-4, atol=1e-6)
    assert found.slow == sum(each < 1 / 8 for each in turns) == 3
    assert found.warnings[0].startswith("3 of 8 pairs")


def test_the_spectrum_in_a_model_is_that_of_its_encoder():
    model = loope.attach(vit(), "rope_mixed")
    found = loope.rotary_spectrum(model)
    alone = loope.rotary_spectrum(model.loope.encoders_of(0)[0])
    torch.testing.assert_close(found.frequencies, alone.frequencies, rtol=1e-3, atol=1e-4)
    assert found.directions > 2
    assert alone.frequencies.shape == (2, 3, 8, 2)


def test_own_rotary_encodings_are_measured():
    model = timm.create_model("eva02_base_patch14_224", **TIMM)
    found = loope.rotary_spectrum(model)
    assert found.frequencies.shape == (2, 3, 8, 2)
    assert (found.frequencies.abs().amax((0, 1, 2)) > 0.1).all()


@pytest.mark.parametrize("made", [lambda: loope.create_encoder("sincos2d", 16, 4), vit])
def test_what_does_not_rotate_has_no_spectrum(made):
    with pytest.raises(LoopeError, match="rotat"):
        loope.rotary_spectrum(made())
