"""ViTDet and SAM of transformers: with the same weights and encoders, their blocks agree with those of timm's SAM."""

import pytest
import timm
import torch
import transformers as hf
from torch import nn

import loope
from docs.matrix import TIMM
from tests.surgery.matrix import every_encoder
from tests.surgery.transformers_models import DET, SAM, SIDE, TABLE, attach_alike, make, predict

EPS = {"layer_norm_eps": 1e-5}
# Names of weights in timm's SAM.
RENAMED = {
    "SAM": {
        "vision_encoder.": "",
        "layers.": "blocks.",
        "layer_norm": "norm",
        "lin": "fc",
        "patch_embed.projection": "patch_embed.proj",
    },
    "ViTDet": {
        "embeddings.projection": "patch_embed.proj",
        "embeddings.position_embeddings": "pos_embed",
        "encoder.layer.": "blocks.",
        "attention.": "attn.",
    },
}
every_name = pytest.mark.parametrize("name", RENAMED)


def pair(name, encoder, window=3, **options):
    """Return a model and timm's SAM with the same weights and encoders, in float64."""
    torch.manual_seed(0)
    if name == "SAM":
        ours = hf.SamVisionModel(hf.SamVisionConfig(**{**SAM, "window_size": window}, **EPS))
    else:
        ours = hf.VitDetModel(
            hf.VitDetConfig(**{**DET, "window_size": window}, **TABLE, **EPS, pretrain_image_size=SIDE)
        )
    args = {**TIMM, "window_size": window, "global_attn_indexes": (1,), "mlp_ratio": 2}
    theirs = timm.create_model("samvit_base_patch16", **args)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.2)
    state = ours.state_dict()
    for old, new in RENAMED[name].items():
        state = {key.replace(old, new): value for key, value in state.items() if "neck" not in key}
    if name == "ViTDet":  # its table has a row for a class token
        state["pos_embed"] = state["pos_embed"][:, 1:].view(1, 4, 4, -1)
    left = theirs.load_state_dict(state, strict=False)
    assert not left.unexpected_keys
    assert all(key.startswith(("neck.", "head.")) for key in left.missing_keys)
    attach_alike(ours, theirs, encoder=encoder, **options)
    return ours, theirs


@torch.no_grad()
def tokens(model, size=(SIDE, SIDE), order=None):
    """Return the tokens after the last block, `(B, h, w, D)`; `order` moves patches after their embedding."""
    branch, seen = model.loope.branches[0], []
    pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hook = branch.blocks[-1].register_forward_hook(lambda module, args, made: seen.append(made))
    shuffle = branch.blocks[0].register_forward_pre_hook(
        lambda module, args: (moved(branch, args[0], order), *args[1:])
    )
    model(pixels)
    hook.remove()
    shuffle.remove()
    made = seen[0][0] if isinstance(seen[0], tuple) else seen[0]
    return branch.channels_last(made)


def moved(branch, tokens, order):
    if order is None:
        return tokens
    rows = branch.channels_last(tokens)
    return branch.as_in_model(rows.flatten(1, 2)[:, order].view(rows.shape))


@every_name
@every_encoder
def test_encoders_act_as_in_timm(name, encoder):
    ours, theirs = pair(name, encoder)
    torch.testing.assert_close(tokens(ours), tokens(theirs))


@every_name
@pytest.mark.parametrize("encoder", ["gilbert", "peg", "rope_mixed", "irpe"])
def test_also_with_the_models_own_encoding_and_strengths(name, encoder):
    ours, theirs = pair(name, encoder, keep_own=True)
    torch.testing.assert_close(tokens(ours), tokens(theirs))
    for model in (ours, theirs):
        loope.set_strength(model, 0.5, own=0.25)
    torch.testing.assert_close(tokens(ours), tokens(theirs))


@every_name
def test_also_at_another_aspect_ratio(name):
    ours, theirs = pair(name, ["sincos2d", "rope_mixed", "alibi2d"])
    for model in (ours, theirs):
        loope.resize(model, (48, 24))
    torch.testing.assert_close(tokens(ours, (48, 24)), tokens(theirs, (48, 24)))


@every_name
def test_without_positions_patches_may_change_places_within_a_window(name):
    ours, _ = pair(name, "none", window=2)
    cells = torch.arange(16).view(2, 2, 2, 2)  # row and column of windows, each with row and column
    order = cells.flip(1).flip(3).flatten()  # the two rows of each window, and the two columns
    straight, changed = tokens(ours), tokens(ours, order=order)
    torch.testing.assert_close(changed, straight.flatten(1, 2)[:, order].view(straight.shape))
    loope.detach(ours)
    loope.attach(ours, "none", keep_own=True)
    expected = tokens(ours).flatten(1, 2)[:, order].view(straight.shape)
    assert not torch.allclose(tokens(ours, order=order), expected)


def test_a_table_for_another_grid_is_kept(tmp_path):
    model = make("ViTDet")  # its table is for 3x3 patches
    before = model.embeddings.position_embeddings.detach().clone()
    loope.attach(model, "learned", init="own", keep_own=False)
    assert model.loope.branches[0].table_grid == (3, 3)
    loope.resize(model, (48, 40))
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors"))
    assert torch.equal(predict(loaded, (48, 40)), predict(model, (48, 40)))
    loope.detach(loaded)
    assert torch.equal(loaded.embeddings.position_embeddings, before)


def test_a_segmenter_keeps_the_size_of_its_prompts():
    model = loope.attach(make("SamModel"), "learned")
    before = predict(model)
    with pytest.raises(loope.LoopeError, match="vision_encoder"):
        loope.resize(model, (48, 48))
    assert torch.equal(predict(model), before)
