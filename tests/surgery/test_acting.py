"""Measuring a checkpoint: its attached encoders with their trained weights, not the table that is set aside."""

import json

import pytest
import timm
import torch
from safetensors.torch import save_file

import loope
from loope.core.weights import WeightsFile
from loope.surgery.acting import acting
from loope.surgery.checkpoint import KEY

SMALL = {"depth": 2, "embed_dim": 32, "num_heads": 2, "img_size": 64}  # 4x4 patches


def small(encoder, **options):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **SMALL)
    loope.attach(model, encoder, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # "trained"
    return model


def saved(model, path):
    loope.save(model, path, model_args={name: SMALL[name] for name in ("depth", "embed_dim", "num_heads")})
    return WeightsFile(path)


@pytest.mark.parametrize(
    "name",
    [
        "rope_mixed",
        "rope_axial",
        "alibi2d",
        "irpe",
        "learned",
        "gilbert",
        "peg",
        "loope",
        "sincos2d",
        "fourier",
        "rel_pos_mlp",
        "lookhere",
        "fire2d",
        "pape",
        "factorized",
    ],
)
def test_the_encoder_at_work_is_measured(name, tmp_path):
    model = small(name)
    file = saved(model, tmp_path / "m.safetensors")
    found = acting(file, file.metadata)
    (positions,) = found.positions
    assert (positions.name, positions.grid, positions.dim) == (name, (4, 4), 32)
    trained = model.loope.encoders_of(0)[0]
    assert torch.equal(positions.similarity(), loope.encoder_similarity(trained))
    assert found.set_aside == ["loope.own.pos_embed"]


def test_what_was_set_aside_is_read_by_name(tmp_path):
    model = small("gilbert")
    file = saved(model, tmp_path / "m.safetensors")
    (positions,) = acting(file, file.metadata, name="loope.own.pos_embed").positions
    own = model.loope.own.pos_embed[0, 1:].view(4, 4, 32)
    assert torch.equal(positions.similarity(), loope.cosine_similarity(own))
    with pytest.raises(loope.LoopeError, match=r"set aside.*loope\.own\.pos_embed"):
        loope.position_table(dict(file))


def test_all_that_acts_is_measured(tmp_path):
    model = small(["gilbert", "rope_mixed"], keep_own=True)
    file = saved(model, tmp_path / "m.safetensors")
    found = acting(file, file.metadata)
    assert [each.name for each in found.positions] == ["gilbert", "rope_mixed", "pos_embed"]
    assert found.set_aside == []
    own = model.pos_embed[0, 1:].view(4, 4, 32)
    assert torch.equal(found.positions[2].similarity(), loope.cosine_similarity(own))


def test_a_resized_model_is_measured_on_its_present_grid_or_another(tmp_path):
    model = small("learned")
    loope.resize(model, (96, 32))
    file = saved(model, tmp_path / "m.safetensors")
    (positions,) = acting(file, file.metadata).positions
    assert positions.grid == (6, 2)
    trained = model.loope.encoders_of(0)[0]
    assert torch.equal(positions.source.table, trained.table)
    (elsewhere,) = acting(file, file.metadata, grid=(3, 5)).positions
    assert torch.equal(elsewhere.similarity(), loope.encoder_similarity(trained, (3, 5)))


@pytest.mark.parametrize("wrapped", ["", "module."])
def test_a_plain_state_dict_needs_the_models_name(wrapped, tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", depth=12)
    loope.attach(model, "rope_mixed")
    path = tmp_path / "m.safetensors"
    save_file({wrapped + name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    file = WeightsFile(path)
    with pytest.raises(loope.LoopeError, match="'rope_mixed' attached, but does not say to which model"):
        acting(file, file.metadata)
    (positions,) = acting(file, file.metadata, model="vit_tiny_patch16_224").positions
    assert torch.equal(positions.similarity(), loope.encoder_similarity(model.loope.encoders_of(0)[0]))


def test_two_branches(tmp_path):
    model = timm.create_model("crossvit_9_240")
    loope.attach(model, "learned")
    path = loope.save(model, tmp_path / "m.safetensors")
    file = WeightsFile(path)
    found = acting(file, file.metadata).positions
    assert len({each.name for each in found}) == 2
    for number, positions in enumerate(found):
        assert torch.equal(positions.source.table, model.loope.encoders_of(number)[0].table)


def test_nothing_attached_is_the_models_table():
    table = torch.rand(1, 13, 8)
    (positions,) = acting({"pos_embed": table}, grid=(3, 4)).positions
    assert (positions.name, positions.grid, positions.dim) == ("pos_embed", (3, 4), 8)
    assert torch.equal(positions.source, table[0, 1:].view(3, 4, 8))


@pytest.mark.parametrize(
    "recipe",
    ["{", "[]", "{}", '{"attach": {"encoders": 3}}', '{"attach": {"encoders": [["moon", {}]], "keep_own": 0}}'],
)
def test_a_damaged_recipe_ends_in_a_message(recipe):
    with pytest.raises(loope.LoopeError):
        acting({"pos_embed": torch.rand(1, 17, 8)}, {KEY: recipe})


def test_a_small_file_cannot_ask_for_a_large_model(tmp_path):
    file = saved(small("gilbert"), tmp_path / "m.safetensors")
    recipe = json.loads(file.metadata[KEY])
    for asked in ({"depth": 10**7}, {"img_size": [80_000, 80_000]}, {"embed_dim": 60_000}):
        larger = {**recipe, "model": {**recipe["model"], "args": {**recipe["model"]["args"], **asked}}}
        with pytest.raises(loope.LoopeError):
            acting(file, {KEY: json.dumps(larger)})


def test_another_models_encoder_does_not_fit(tmp_path):
    file = saved(small("learned"), tmp_path / "m.safetensors")
    recipe = json.loads(file.metadata[KEY])
    recipe["model"]["args"]["embed_dim"] = 64
    with pytest.raises(loope.LoopeError, match="does not hold the model"):
        acting(file, {KEY: json.dumps(recipe)})
