"""Swin of transformers: with the same weights and encoders it agrees with timm's."""

import re

import pytest
import timm
import torch
import transformers as hf
from torch import nn

import loope
from tests.surgery.matrix import every_encoder
from tests.surgery.registry import SWIN as TIMM_SWIN
from tests.surgery.transformers_models import PATCH, SWIN, attach_alike, make, predict

# Names of weights in timm's Swin.
RENAMED = {
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "embeddings.norm": "patch_embed.norm",
    "encoder.": "",
    "attention.relative_position_bias.": "attn.",
    "attention.o_proj": "attn.proj",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "layernorm": "norm",
    "layers.0.downsample": "layers.1.downsample",
}


def pair(encoder, **options):
    """Return a Swin and timm's with the same weights and encoders, in float64."""
    torch.manual_seed(0)
    ours = hf.SwinModel(hf.SwinConfig(**SWIN))
    theirs = timm.create_model(
        "swin_tiny_patch4_window7_224", **{**TIMM_SWIN, "patch_size": PATCH, "window_size": 2, "mlp_ratio": 2}
    )
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.2)
    state = ours.state_dict()
    for old, new in RENAMED.items():
        state = {key.replace(old, new): value for key, value in state.items()}
    for key in [key for key in state if "q_proj" in key]:
        parts = [state.pop(re.sub("q_proj", f"{each}_proj", key)) for each in "qkv"]
        state[key.replace("attention.q_proj", "attn.qkv")] = torch.cat(parts)
    left = theirs.load_state_dict(state, strict=False)
    assert not left.unexpected_keys
    assert all(key.startswith("head.") for key in left.missing_keys)
    attach_alike(ours, theirs, encoder=encoder, **options)
    return ours, theirs


@torch.no_grad()
def assert_agree(ours, theirs, size=(32, 32)):
    pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(ours(pixels).last_hidden_state, theirs.forward_features(pixels).flatten(1, 2))


@pytest.mark.parametrize("name", ["HF Swin"])  # so that conftest chooses what is fast
@every_encoder
def test_encoders_act_as_in_timm(name, encoder):
    assert_agree(*pair(encoder))


@pytest.mark.parametrize("encoder", ["gilbert", "peg", "rope_mixed", "irpe"])
def test_also_with_the_models_own_encoding_and_strengths(encoder):
    ours, theirs = pair(encoder, keep_own=True)
    assert_agree(ours, theirs)
    for model in (ours, theirs):
        loope.set_strength(model, 0.5, own=0.25)
    assert_agree(ours, theirs)


def test_also_at_another_aspect_ratio():
    ours, theirs = pair(["sincos2d", "rope_mixed", "alibi2d", "peg"])
    for model in (ours, theirs):
        loope.resize(model, (64, 96))
    assert [branch.grid for branch in ours.loope.branches] == [(8, 12), (4, 6)]
    assert_agree(ours, theirs, (64, 96))


def test_images_are_padded_to_whole_patches():
    model = loope.attach(make("HF Swin"), ["loope", "rope_axial", "peg"])
    pixels = torch.randn(2, 3, 37, 45)
    with torch.no_grad():
        padded = model(nn.functional.pad(pixels, (0, 3, 0, 3)))
        torch.testing.assert_close(model(pixels).last_hidden_state, padded.last_hidden_state)


def test_a_table_is_set_aside_and_resampled():
    model = make("HF Swin, table")
    loope.resize(model, (32, 48))
    assert model.embeddings.position_embeddings.shape[1] == 24
    assert predict(model, (32, 48)).isfinite().all()
    loope.attach(model, "gilbert")
    assert "embeddings.position_embeddings" in loope.report(model).set_aside
