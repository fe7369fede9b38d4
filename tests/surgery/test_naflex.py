"""timm's NaFlexVit: images as they are, dictionaries of patches of several sizes, and packed sequences."""

import copy
from typing import Any

import pytest
import timm
import torch
from timm.data.naflex_dataset import NaFlexCollator
from timm.data.naflex_transforms import Patchify
from timm.models.naflexvit import NaFlexVit, NaFlexVitCfg
from torch import Tensor, nn

import loope
from loope import Positions
from loope.segmentation import SETR
from tests.surgery.matrix import same_state, state_of
from tests.surgery.models import NAFLEX, images

SIZES = [(16, 40), (32, 32), (24, 8)]  # 2x5, 4x4 and 3x1 patches
ENCODERS = ["sincos2d", "learned", "loope", "peg", "irpe", "alibi2d", "rope_axial", "rope_mixed", "as2drope"]
ENCODERS += ["rel_pos_mlp", "lookhere", "fire2d", "pape", "factorized"]
OWN = {
    "learned": {},
    "factorized": {"pos_embed": "factorized"},
    "axial": {"pos_embed": "none", "rope_type": "axial", "rope_temperature": 100.0},
    "mixed": {"pos_embed": "none", "rope_type": "mixed", "rope_temperature": 10.0},
}
every_own = pytest.mark.parametrize("own", OWN)


def make(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    model = timm.create_model("naflexvit_base_patch16_gap", **{**NAFLEX, "reg_tokens": 2, **options})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def attached(encoder: Any, keep_own: bool = False, **options: Any) -> nn.Module:
    model = loope.attach(make(**options), encoder, keep_own=keep_own)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model


def pixels(sizes: list[tuple[int, int]] = SIZES) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(3, *size, generator=generator) for size in sizes]


def loaded(shown: list[Tensor], length: int = 20) -> dict[str, Tensor]:
    """What timm's loader makes of images: patches padded to `length`."""
    patchify = Patchify(8)
    return NaFlexCollator(length)([(patchify(image), 0) for image in shown])[0]


def cast(batch: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {**batch, "patches": batch["patches"].to(dtype)}


@torch.no_grad()
def predict(model: nn.Module, shown: Any) -> Tensor:
    return model(shown)


@every_own
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_batch_of_several_sizes_is_its_images_one_at_a_time(encoder, own):
    """Padding, the masks of the model and of the encoders, and LOOPE's images all have a part in it."""
    model = attached(encoder, keep_own=own != "learned", **OWN[own])
    for dtype, exact in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        model.to(dtype)
        together = predict(model, cast(loaded(pixels()), dtype))
        alone = [predict(model, image[None].to(dtype)) for image in pixels()]
        torch.testing.assert_close(together, torch.cat(alone), atol=exact, rtol=exact)
        single = [predict(model, cast(loaded([image], length=16), dtype)) for image in pixels()]
        torch.testing.assert_close(together, torch.cat(single), atol=exact, rtol=exact)


@pytest.mark.parametrize("encoder", ["alibi2d", "irpe", "rope_mixed"])
def test_masks_by_key_alone_and_half_precision(encoder):
    model, batch = attached(encoder, use_key_only_attn_mask=True), loaded(pixels())
    alone = torch.cat([predict(model, image[None]) for image in pixels()])
    torch.testing.assert_close(predict(model, batch), alone, atol=1e-5, rtol=1e-5)
    model.use_key_only_attn_mask = False  # rows of padding see nothing at all
    assert predict(model.bfloat16(), cast(batch, torch.bfloat16)).isfinite().all()


def test_one_backward_pass_through_checkpointed_batches_of_other_sizes():
    model = attached(["irpe", "rope_mixed"]).double()
    batches = [cast(loaded(pixels(sizes)), torch.float64) for sizes in (SIZES, [(40, 16), (8, 24)])]

    def gradients() -> list[Tensor]:
        model.zero_grad()
        torch.cat([model(batch) for batch in batches]).square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    plain = gradients()
    model.set_grad_checkpointing()
    for expected, found in zip(plain, gradients(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("channels_last", [True, False])
def test_loope_sees_the_images_that_the_patches_were_cut_from(channels_last):
    model, seen = attached("loope", patchify_channels_last=channels_last), []
    model.loope.encoders[0][0].generator.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    patchify = Patchify(8, channels_last=channels_last)
    for shown in (pixels(), pixels([(32, 40)] * 2)):
        batch, _ = NaFlexCollator(20)([(patchify(image), 0) for image in shown])
        seen.clear()
        predict(model, batch)
        found = [image for each in seen for image in each]
        assert len(found) == len(shown)
        assert all(torch.equal(*pair) for pair in zip(found, shown, strict=True))


@every_own
def test_the_own_encoding_is_set_aside_and_comes_back(own):
    model, batch = make(**OWN[own]), loaded(pixels())
    before, state, kind = predict(model, batch), state_of(model), model.embeds.pos_embed_type
    torch.manual_seed(0)
    loope.attach(model, "none")
    without = predict(model, batch)
    bare = make(pos_embed="none", attn_type="standard" if own in ("learned", "factorized") else "rope")
    assert bare.load_state_dict(state, strict=False).missing_keys == []
    torch.testing.assert_close(without, predict(bare, batch))
    twin = copy.deepcopy(model)
    assert torch.equal(predict(twin, batch), without)
    for size in [(64, 24), (32, 32)]:
        loope.resize(model, size)
    loope.detach(model)
    assert model.embeds.pos_embed_type == kind
    assert torch.equal(predict(model, batch), before)
    assert same_state(model, state)


@every_own
def test_its_own_encoding_has_a_strength(own):
    model, batch = attached("rope_mixed", keep_own=True, **OWN[own]), loaded(pixels())
    loope.set_strength(model, 0.5, own=0.5)
    alone = torch.cat([predict(model, image[None]) for image in pixels()])
    torch.testing.assert_close(predict(model, batch), alone, atol=1e-5, rtol=1e-5)
    loope.set_strength(model, 0, own=0)
    nothing = predict(model, batch)
    loope.detach(model)
    assert not torch.allclose(predict(model, batch), nothing)
    torch.testing.assert_close(predict(loope.attach(model, "none"), batch), nothing)


def test_learned_from_the_own_table_is_the_own_encoding():
    """At the table's own grid, and at others too: both resample bicubically with antialiasing, in float32."""
    model, batch = make(), loaded(pixels())
    before = predict(model, batch)
    loope.attach(model, "learned", init="own")
    torch.testing.assert_close(predict(model, batch), before, atol=1e-5, rtol=1e-5)
    whole = loaded(pixels([(32, 32)] * 2), length=16)
    now = predict(model, whole)
    loope.detach(model)
    assert torch.equal(now, predict(model, whole))


def test_axial_rotary_is_its_own():
    model, batch = make(**OWN["axial"]), loaded(pixels())
    before = predict(model, batch)
    loope.attach(model, "rope_axial", temperature=100.0)
    torch.testing.assert_close(predict(model, batch), before, atol=1e-5, rtol=1e-5)


def test_axial_rotary_with_a_reference_grid_is_its_own_with_scaled_coordinates():
    model, batch = make(**OWN["axial"], rope_ref_feat_shape=(4, 4)), loaded(pixels())
    before = predict(model, batch)
    loope.attach(model, "as2drope", temperature=100.0, base=4)
    torch.testing.assert_close(predict(model, batch), before, atol=1e-5, rtol=1e-5)


def test_mixed_rotary_is_its_own_with_its_frequencies():
    model, batch = make(**OWN["mixed"]), loaded(pixels())
    before, frequencies = predict(model, batch), model.rope.freqs.detach().clone()
    loope.attach(model, "rope_mixed")
    with torch.no_grad():
        model.loope.encoders[0][0].frequencies.copy_(frequencies)
    torch.testing.assert_close(predict(model, batch), before, atol=1e-5, rtol=1e-5)


@every_own
@pytest.mark.parametrize("keep_own", [True, False])
def test_files_rebuild_it_at_another_size(own, keep_own, tmp_path):
    args = {**NAFLEX, **OWN[own], "reg_tokens": 2}
    model = loope.attach(make(**OWN[own]), "loope", keep_own=keep_own)
    loope.resize(model, (48, 24))
    args = {key: value for key, value in args.items() if key not in ("pos_embed_grid_size", "num_classes")}
    again = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=args))
    batch = loaded(pixels())
    assert torch.equal(predict(again, batch), predict(model, batch))


def test_files_of_a_classic_vit_made_naflex_and_of_feature_extractors(tmp_path):
    args = {key: value for key, value in NAFLEX.items() if key not in ("pos_embed_grid_size", "num_classes")}
    classic = timm.create_model("vit_tiny_patch16_224", use_naflex=True, img_size=32, num_classes=5, **args).eval()
    assert isinstance(classic, NaFlexVit)
    features = timm.create_model(
        "naflexvit_base_patch16_gap", features_only=True, out_indices=(0, 1), pos_embed_grid_size=(4, 4), **args
    )
    for model in (classic, features.eval()):
        loope.attach(model, "rope_mixed")
        again = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=args))
        with torch.no_grad():
            torch.testing.assert_close(again(images(model)), model(images(model)), atol=0, rtol=0)


@pytest.mark.parametrize("encoder", ["learned", "irpe", "rope_mixed", "peg", "as2drope"])
def test_patch_dropout_takes_padding_and_positions_along(encoder):
    model = attached(encoder, patch_drop_rate=0.4).double().train()
    batch = cast(loaded(pixels()), torch.float64)
    torch.manual_seed(5)
    dropped = model.forward_features(batch["patches"], batch["patch_coord"], batch["patch_valid"])
    torch.manual_seed(5)
    kept = torch.argsort(torch.randn(3, 20), dim=-1)[:, :12]
    part = {
        "patches": batch["patches"].gather(1, kept[..., None].expand(-1, -1, 192)),
        "patch_coord": batch["patch_coord"].gather(1, kept[..., None].expand(-1, -1, 2)),
        "patch_valid": batch["patch_valid"].gather(1, kept),
    }
    row, column = part["patch_coord"].unbind(-1)
    cells = torch.tensor([[5], [4], [1]]) * row + column
    positions = Positions(Positions.batch([(2, 5), (4, 4), (3, 1)]).grids, cells, valid=part["patch_valid"])
    with loope.use_positions(model.eval(), positions):
        expected = model.forward_features(**part)["patches"]
    seen = torch.cat((torch.ones(3, 2, dtype=torch.bool), part["patch_valid"]), dim=1)
    torch.testing.assert_close(dropped["patches"][seen], expected[seen], atol=1e-10, rtol=1e-10)
    assert torch.equal(dropped["patch_valid"], part["patch_valid"])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float64])
def test_two_images_packed_in_one_row_are_the_images_one_at_a_time(encoder, dtype):
    model = attached(encoder, reg_tokens=0).double()
    shown = pixels(SIZES[:2])
    parts = [cast(loaded([image], length=count), torch.float64) for image, count in zip(shown, (10, 16), strict=True)]
    row = {key: torch.cat([part[key] for part in parts], dim=1) for key in ("patches", "patch_coord", "patch_valid")}
    positions = Positions.packed([(2, 5), (4, 4)])
    mask = positions.visible()[:, None]
    if dtype != torch.bool:
        mask = torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, float("-inf"))
    with torch.no_grad():
        alone = [model.forward_features(image[None].double()) for image in shown]
        with loope.use_positions(model, positions):
            packed = model.forward_features(**row, attn_mask=mask)["patches"]
        with loope.use_positions(model, Positions.packed([(5, 2), (4, 4)])):
            elsewhere = model.forward_features(**row, attn_mask=mask)["patches"]
    torch.testing.assert_close(packed, torch.cat(alone, dim=1), atol=1e-10, rtol=1e-10)
    assert not torch.allclose(elsewhere[:, :10], packed[:, :10])
    torch.testing.assert_close(elsewhere[:, 10:], packed[:, 10:], atol=1e-10, rtol=1e-10)


def test_what_is_refused_says_why():
    with pytest.raises(loope.LoopeError, match="pos_embed_grid_size"):
        loope.attach(
            NaFlexVit(NaFlexVitCfg(depth=1, embed_dim=24, num_heads=2, pos_embed="none", pos_embed_grid_size=None)),
            "peg",
        )
    with pytest.raises(loope.LoopeError, match="Patches must be square"):
        loope.attach(make(patch_size=(8, 4)), "gilbert")
    with pytest.raises(loope.LoopeError, match="got NaFlexVit"):
        SETR(make(), 5)
    model, batch = attached("gilbert"), loaded(pixels())
    with pytest.raises(loope.LoopeError, match="whole numbers"):
        predict(model, {**batch, "patch_coord": batch["patch_coord"] + 0.5})
    with pytest.raises(loope.LoopeError, match="from 0"):
        predict(model, {**batch, "patch_coord": batch["patch_coord"] - 1})
