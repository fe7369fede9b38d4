"""Every known bug is found, and no model without a bug is blamed."""

import pytest
import timm
import torch
from timm.layers import apply_rot_embed_cat, resample_abs_pos_embed
from torch.nn import functional as F

import loope
from tests.surgery.models import MODELS, TIMM, make, vit
from tests.surgery.registry import REGISTRY
from tests.surgery.registry import make as make_registered
from tests.surgery.transformers_models import CORES
from tests.surgery.transformers_models import make as make_transformers


@pytest.mark.parametrize("name", MODELS)
def test_clean_models_have_no_findings(name):
    report = loope.audit(MODELS[name]())
    assert report.ok, str(report)
    assert len(report.passed) >= 4, str(report)


# transformers lays their tables over any image with as many patches, unless it is told to interpolate them.
SHAPELESS = {"OWL-ViT", "OWLv2", "SigLIP", "AIMv2"}
WINDOWS = {"SAM", "Swin", "Swin v2"}  # scores within windows are not compared
# Masked at random, called with patches, or without a token for each patch after every block.
NOTHING_TO_CHECK = {"ViTMAE", "SigLIP 2", "Hiera", "Hiera, windows"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CORES, *REGISTRY])
def test_models_of_both_libraries(name):
    model = make_transformers(name) if name in CORES else make_registered(name)
    if name in NOTHING_TO_CHECK:
        with pytest.raises(loope.LoopeError, match="No check applies"):
            loope.audit(model)
        return
    report = loope.audit(model)
    expected = ["another shape is not the same grid"] if name in SHAPELESS else []
    assert [each.check for each in report.findings] == expected, str(report)
    assert len(report.passed) >= (2 if name in WINDOWS else 4), str(report)


def test_a_table_for_another_grid_has_no_findings():
    model = make_transformers("Dinov2")
    loope.resize(model, (48, 40))
    report = loope.audit(model)
    assert report.ok, str(report)
    assert "a table at another size is the right way round" in report.passed


@pytest.mark.parametrize("encoder", ["sincos2d", "learned", "gilbert", "loope", "rope_mixed", "irpe", "alibi2d", "peg"])
def test_attached_encoders_have_no_findings(encoder):
    report = loope.audit(loope.attach(vit(), encoder))
    assert report.ok, str(report)


def test_an_audit_leaves_the_model_as_it_is():
    model = vit().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    loope.audit(model)
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def own_positions(model, resampled):
    """A ViT of dynamic size whose table is laid out by `resampled(model, table, grid)`."""

    class Mutant(type(model)):
        def _pos_embed(self, x):
            grid = x.shape[1:3]
            x = torch.cat((self.cls_token.expand(len(x), -1, -1), x.flatten(1, 2)), dim=1)
            return x + resampled(self, self.pos_embed, tuple(grid))

    model.__class__ = Mutant
    return model


def swapped(model, table, grid):
    return resample_abs_pos_embed(table, new_size=grid[::-1], num_prefix_tokens=1)


def sliced(model, table, grid):
    length = 1 + grid[0] * grid[1]
    return F.pad(table[:, :length], (0, 0, 0, max(0, length - table.shape[1])))


def class_token_last(model, table, grid):
    return resample_abs_pos_embed(table, new_size=grid, num_prefix_tokens=1).roll(-1, 1)


def cached_by_number(model, table, grid):
    kept = model.__dict__.setdefault("kept", {})
    number = grid[0] * grid[1]
    if number not in kept:
        kept[number] = resample_abs_pos_embed(table, new_size=grid, num_prefix_tokens=1)
    return kept[number]


def right(model, table, grid):
    return resample_abs_pos_embed(table, new_size=grid, num_prefix_tokens=1)


def names(report):
    return {finding.check for finding in report.findings}


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (swapped, "a table at another size is the right way round"),
        (sliced, "a table at another size is the right way round"),
        (sliced, "another shape is not the same grid"),
        (class_token_last, "each row of the table reaches its own patch"),
        (cached_by_number, "two sizes in turn do not leak"),
    ],
)
def test_bugs_of_tables_are_found(bug, check):
    report = loope.audit(own_positions(vit(dynamic_img_size=True), bug))
    assert check in names(report), str(report)
    assert "pos_embed" in str(report.findings) or "Mutant" in str(report.findings)


def test_the_same_mutant_without_a_bug_has_no_findings():
    report = loope.audit(own_positions(vit(dynamic_img_size=True), right))
    assert report.ok, str(report)


def rotated_by(rotate):
    """An EVA whose attention rotates queries and keys by `rotate(x, rope)`, prefix included."""
    model = timm.create_model("eva02_base_patch14_224", **TIMM, dynamic_img_size=True)

    class Mutant(type(model.blocks[0].attn)):
        def forward(self, x, rope=None, attn_mask=None, **more):
            heads = self.num_heads
            q, k, v = (
                layer(x).reshape(*x.shape[:2], heads, -1).transpose(1, 2)
                for layer in (self.q_proj, self.k_proj, self.v_proj)
            )
            mixed = F.scaled_dot_product_attention(rotate(q, rope), rotate(k, rope), v)
            return self.proj(mixed.transpose(1, 2).flatten(2))

    for block in model.blocks:
        block.attn.__class__ = Mutant
    return model


def first_is_prefix(x, rope, half=False):
    return torch.cat((x[:, :, :1], apply_rot_embed_cat(x[:, :, 1:], rope, half=half)), dim=2)


def last_is_prefix(x, rope):
    return torch.cat((apply_rot_embed_cat(x[:, :, :-1], rope), x[:, :, -1:]), dim=2)


def mixed_layout(x, rope):
    return first_is_prefix(x, rope, half=True)


@pytest.mark.parametrize("bug", [last_is_prefix, mixed_layout])
def test_bugs_of_rotary_encodings_are_found(bug):
    report = loope.audit(rotated_by(bug))
    assert "scores depend on offsets" in names(report), str(report)


def test_the_same_rotary_mutant_without_a_bug_has_no_findings():
    report = loope.audit(rotated_by(first_is_prefix))
    assert report.ok, str(report)


@pytest.mark.parametrize(("exact", "bug"), [(False, True), (True, False)])
def test_angles_in_bfloat16_are_found(exact, bug):
    def rotate(x, rope):
        wide = torch.float32 if exact else x.dtype
        height = 4 if x.shape[2] == 17 else 2
        column = (torch.arange(x.shape[2] - 1) % ((x.shape[2] - 1) // height)).to(wide)
        angle = column[:, None] * torch.ones(x.shape[-1] // 2, dtype=wide)
        table = torch.cat([each.repeat_interleave(2, -1) for each in (angle.sin(), angle.cos())], -1)
        return first_is_prefix(x, table.to(x.dtype))

    report = loope.audit(rotated_by(rotate))
    assert ("positions are distinct in half precision" in names(report)) == bug, str(report)


def test_a_batch_that_mixes_its_images_is_found():
    model = make("ViT")
    model.patch_embed.register_forward_hook(lambda module, args, tokens: tokens + tokens.mean(0))
    report = loope.audit(model)
    assert "a batch is its images one by one" in names(report)


def test_a_report_says_what_where_and_why():
    report = loope.audit(own_positions(vit(dynamic_img_size=True), swapped))
    assert not report.ok
    finding = report.findings[0]
    assert "8" in finding.seen
    assert "swapped" in finding.effect
    assert "pos_embed" in finding.where
    assert finding.seen in str(report)
