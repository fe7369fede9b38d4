"""Bugs of tables for each axis, of padded batches, of packed rows, and of what should move with its positions."""

import pytest
import torch
from torch.nn import functional as F

import loope
from tests.surgery.models import make, vit
from tests.surgery.test_naflex import OWN
from tests.surgery.test_naflex import make as naflex

ROWS = "each row of the table reaches its own patch"
RESAMPLED = "a table at another size is the right way round"
TOGETHER = "patches and positions move together"
PADDED = "a batch of several sizes is its images one by one"
PACKED = "a packed row is its images one by one"


def names(report):
    return {finding.check for finding in report.findings}


def mutate(part, **methods):
    """Replace methods of a module, in its copies too."""
    part.__class__ = type("Mutant", (type(part),), methods)


@pytest.mark.parametrize("own", OWN)
def test_clean_models_that_take_patches(own):
    report = loope.audit(naflex(**OWN[own]))
    assert report.ok, str(report)
    assert PADDED in report.passed
    assert ({ROWS, RESAMPLED, TOGETHER} <= set(report.passed)) == (own in ("learned", "factorized"))


@pytest.mark.parametrize("own", ["learned", "factorized"])
def test_tables_that_keep_the_aspect_ratio_are_not_cut(own):
    report = loope.audit(naflex(pos_embed=own, pos_embed_ar_preserving=True))
    assert report.ok, str(report)
    assert RESAMPLED in report.passed


@pytest.mark.parametrize("encoder", ["rope_axial", "alibi2d", "sincos2d"])
def test_clean_models_that_take_packed_rows(encoder):
    report = loope.audit(loope.attach(naflex(reg_tokens=0), encoder))
    assert report.ok, str(report)
    assert {PADDED, PACKED, TOGETHER} <= set(report.passed)


@pytest.mark.parametrize(("encoder", "keep_own"), [("rope_axial", True), ("alibi2d", False), ("alibi2d", True)])
def test_clean_models_that_are_given_positions(encoder, keep_own):
    report = loope.audit(loope.attach(make("ViT, no class token"), encoder, keep_own=keep_own))
    assert report.ok, str(report)
    assert {PADDED, TOGETHER} <= set(report.passed)
    assert (PACKED in report.passed) == (encoder == "alibi2d" and not keep_own)


def columns_as_rows(self, x, grid_size):
    rows, columns = (
        F.interpolate(each.mT, size, mode="linear").mT
        for each, size in zip((self.pos_embed_x, self.pos_embed_y), grid_size, strict=True)
    )
    x.add_((rows[:, :, None] + columns[:, None]).flatten(1, 2))


def swapped_sides(self, x, grid_size):
    high, wide = grid_size
    rows, columns = (
        F.interpolate(each.mT, size, mode="linear").mT
        for each, size in zip((self.pos_embed_y, self.pos_embed_x), (wide, high), strict=True)
    )
    x.add_((rows[:, :, None] + columns[:, None]).flatten(1, 2))


@pytest.mark.parametrize(("bug", "check"), [(columns_as_rows, ROWS), (swapped_sides, RESAMPLED)])
def test_bugs_of_tables_for_each_axis_are_found(bug, check):
    model = naflex(pos_embed="factorized")
    mutate(model.embeds, _apply_factorized_pos_embed=bug)
    report = loope.audit(model)
    assert check in names(report), str(report)
    assert "pos_embed_y, pos_embed_x" in next(each.where for each in report.findings if each.check == check)


def test_padding_that_is_seen_is_found():
    model = naflex()

    def forward_features(self, x=None, patch_coord=None, patch_valid=None, **more):
        seen = None if patch_valid is None else torch.ones_like(patch_valid)
        patches = more.pop("patches", x)
        return super(type(self), self).forward_features(patches, patch_coord, seen, **more)

    mutate(model, forward_features=forward_features)
    report = loope.audit(model)
    assert names(report) == {PADDED}, str(report)


@pytest.mark.parametrize("own", ["learned", "factorized"])
def test_the_grid_of_the_first_image_for_all_is_found(own):
    model = naflex(**OWN[own])
    method = f"_apply_{own}_naflex_pos_embed"

    def apply(self, x, patch_coord):
        getattr(super(type(self), self), method)(x, patch_coord=patch_coord[:1].expand_as(patch_coord))

    mutate(model.embeds, **{method: apply})
    assert names(loope.audit(model)) == {PADDED}


def test_images_of_a_row_that_see_each_other_are_found():
    model = loope.attach(naflex(reg_tokens=0), "rope_axial")

    def forward_features(self, *args, attn_mask=None, **more):
        return super(type(self), self).forward_features(*args, **more)

    mutate(model, forward_features=forward_features)
    assert names(loope.audit(model)) == {PACKED}


def test_an_encoder_that_takes_all_images_for_the_first_is_found():
    model = loope.attach(vit(), "as2drope")

    def rotate(self, q, k, positions, layer):
        first = positions._replace(grids=positions.grids[:1]) if positions.valid is not None else positions
        return super(type(self), self).rotate(q, k, first, layer)

    mutate(model.loope.encoders_of(0)[0], rotate=rotate)
    report = loope.audit(model)
    assert names(report) == {PADDED}, str(report)
    assert "as2drope" in report.findings[0].where


def test_a_bias_that_forgets_the_padding_is_found():
    model = loope.attach(vit(), "alibi2d")

    def bias(self, q, positions, layer):
        return super(type(self), self).bias(q, positions._replace(valid=None), layer)

    mutate(model.loope.encoders_of(0)[0], bias=bias)
    assert PADDED in names(loope.audit(model))


@pytest.mark.parametrize("own", ["vit", "factorized"])
def test_what_does_not_move_with_the_table_is_found(own):
    """A mask that lets patches see earlier ones only, as blocks of language models have."""
    model = vit() if own == "vit" else naflex(pos_embed="factorized", reg_tokens=0)
    attention = model.blocks[0].attn

    def forward(self, x, attn_mask=None, **more):
        earlier = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return super(type(self), self).forward(x, attn_mask=earlier[None, None])

    mutate(attention, forward=forward)
    report = loope.audit(model)
    assert TOGETHER in names(report), str(report)
    assert "pos_embed" in next(each.where for each in report.findings if each.check == TOGETHER)
