"""Runs with the study's recipe: equal starts, other grids, attention in bfloat16."""

import dataclasses

import pytest
import torch

import loope
from loope.encoders import PositionalEncoder
from loope.lab.engine.attention import plain_attention
from loope.lab.engine.evaluation import evaluate
from loope.lab.experiments.presets import STUDY, study_run
from loope.lab.experiments.results import MODEL, folder_of, read_result
from loope.lab.experiments.runner import create_experiment, execute
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.start import RMS
from loope.lab.experiments.three_cell import CentredSource, ThreeCellProbe

HERE = Settings(workers=0)


def built(encoder, start="equal", **options):
    run = study_run("smoke", encoder, options)
    run = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, start=start))
    model = create_experiment(run, HERE).build_model()
    return next(each for each in model.modules() if isinstance(each, PositionalEncoder))


@pytest.mark.parametrize("name", ["learned", "factorized", "fourier", "sinusoid", "gilbert", "sincos2d"])
def test_additive_encoders_start_with_the_size_of_sinusoids(name):
    vectors = built(name)(None)
    assert vectors.square().mean().sqrt().item() == pytest.approx(RMS, rel=1e-5)
    before = built(name, start="default")(None)
    assert torch.allclose(vectors / vectors.norm(), before / before.norm(), atol=1e-6)  # only the size is another


def test_a_refined_encoder_starts_as_its_base():
    refined, base = built("fourier", refine={}), built("fourier")
    assert torch.equal(refined.mlp[2].weight, base.mlp[2].weight)


@pytest.mark.parametrize("mode", ["contextual", "bias"])
def test_zero_tables_of_biases_start_with_different_values(mode):
    assert not built("irpe", start="default", mode=mode).tables.any()
    assert built("irpe", mode=mode).tables.std() > 0.1


@pytest.mark.parametrize("name", ["rope_mixed", "peg", "rel_pos_mlp", "alibi2d"])
def test_other_encoders_start_as_they_are(name):
    one, other = built(name).state_dict(), built(name, start="default").state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one if not key.endswith("_extra_state"))


def test_queries_and_keys_start_larger_and_values_do_not():
    run = study_run("smoke", "sincos2d")
    plain = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, attention_gain=1.0))
    models = [create_experiment(each, HERE).build_model() for each in (run, plain)]
    for one, other in zip(*(model.blocks for model in models), strict=True):
        (q, k, v), (plain_q, plain_k, plain_v) = (block.attn.qkv.weight.chunk(3) for block in (one, other))
        assert torch.equal(q, 3 * plain_q)
        assert torch.equal(k, 3 * plain_k)
        assert torch.equal(v, plain_v)


@pytest.mark.parametrize("encoder", ["learned", "irpe"])
def test_a_trained_model_is_tested_on_other_grids(encoder, tmp_path):
    run = study_run("smoke", encoder)
    execute(run.to_json(), str(tmp_path), HERE)
    metrics = read_result(folder_of(run, tmp_path))["metrics"]
    model = loope.load(folder_of(run, tmp_path) / MODEL)
    assert loope.report(model).grids == ["4x4"]  # as trained
    loope.resize(model, (20, 20))
    source = CentredSource(loope.ThreeCell(10_000, 5, 4, seed=0, split="test"), run.recipe.batch_size)
    with plain_attention("bfloat16"):
        scores = evaluate(model, ThreeCellProbe.task, source, precision="bfloat16")
    for name in ("distance", "orientation", "area", "vector_sum", "average"):
        assert metrics[f"{name}_5x5"] == pytest.approx(scores[name], abs=1e-6)


def test_attention_is_fused_except_in_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch.backends.cuda.flash_sdp_enabled()
    with plain_attention("bfloat16"):
        assert not torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    assert torch.backends.cuda.flash_sdp_enabled()
    assert not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    with plain_attention("float32"):
        assert torch.backends.cuda.flash_sdp_enabled()


def test_refined_runs_record_the_size_of_offsets(tmp_path):
    run = study_run("smoke", "rope_mixed", {"refine": {"zero_init": False}})
    execute(run.to_json(), str(tmp_path), HERE)
    metrics = read_result(folder_of(run, tmp_path))["metrics"]
    assert 0 < metrics["offset_size"] < 1
    assert metrics["offset_over_images"] > 0


def test_the_recipe_is_one_for_all_encoders():
    runs = [study_run("laptop", encoder) for encoder in ("learned", "irpe", "loope")]
    assert {run.recipe for run in runs} == {STUDY}
    assert len({str(run.model) + str(run.data) for run in runs}) == 1
    assert not any(run.encoder.options for run in runs)
