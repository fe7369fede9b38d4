"""Tokens after the patches: YOLOS with one of them agrees with a DeiT that has it before the patches."""

import pytest
import torch
import transformers as hf
from torch import nn

import loope
from tests.surgery.matrix import every_encoder
from tests.surgery.transformers_models import VIT, YOLOS, attach_alike, inputs, make

# Names of YOLOS' weights in DeiT.
RENAMED = {
    "embeddings.detection_tokens": "embeddings.distillation_token",
    "encoder.layer.": "layers.",
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}


def front(tokens):
    """Move the last token, YOLOS' detection token, behind the first, as in DeiT."""
    return torch.cat((tokens[:, :1], tokens[:, -1:], tokens[:, 1:-1]), dim=1)


def twins(encoder, **options):
    """Return a YOLOS and a DeiT with the same weights and encoders."""
    torch.manual_seed(0)
    config = {**YOLOS, "num_detection_tokens": 1, "layer_norm_eps": 1e-6}
    yolos = hf.YolosModel(hf.YolosConfig(**config, use_mid_position_embeddings=False))
    deit = hf.DeiTModel(hf.DeiTConfig(**VIT, layer_norm_eps=1e-6))
    for parameter in yolos.parameters():
        nn.init.normal_(parameter, std=0.2)
    state = yolos.state_dict()
    state["embeddings.position_embeddings"] = front(state["embeddings.position_embeddings"])
    for old, new in RENAMED.items():
        state = {key.replace(old, new): value for key, value in state.items()}
    deit.load_state_dict(state)
    attach_alike(yolos, deit, encoder=encoder, **options)
    return yolos, deit


@torch.no_grad()
def assert_agree(yolos, deit):
    shown = inputs(yolos, dtype=torch.float64)
    torch.testing.assert_close(front(yolos(**shown)[0]), deit(**shown)[0])


@every_encoder
@pytest.mark.parametrize("prefix", ["none", "learned"])
def test_encoders_act_on_patches_alone(encoder, prefix):
    yolos, deit = twins(encoder, prefix=prefix)
    assert (yolos.loope.branches[0].prefix, yolos.loope.branches[0].suffix) == (1, 1)
    assert_agree(yolos, deit)


@pytest.mark.parametrize("encoder", ["gilbert", "peg", "rope_mixed", "alibi2d", "irpe"])
def test_with_the_models_own_encoding_and_strengths(encoder):
    yolos, deit = twins(encoder, keep_own=True)
    assert_agree(yolos, deit)
    for model in (yolos, deit):
        loope.set_strength(model, 0.5, own=0.25)
    assert_agree(yolos, deit)


@pytest.mark.parametrize("encoder", ["sincos2d", "rope_mixed", "alibi2d"])
def test_baked(encoder):
    yolos, deit = twins(encoder)
    for model in (yolos, deit):
        loope.bake(model, (32, 32))
    assert_agree(yolos, deit)


@pytest.mark.parametrize("encoder", ["sincos2d", "rope_mixed", "alibi2d", "irpe"])
def test_padding_is_hidden_from_tokens_after_the_patches_too(encoder):
    yolos, deit = twins(encoder)
    positions = loope.Positions.batch([(4, 4), (3, 4)])
    with loope.use_positions(yolos, positions), loope.use_positions(deit, positions):
        assert_agree(yolos, deit)


def test_learned_vectors_start_from_the_models_own():
    model = make("YOLOS")
    own = model.embeddings.position_embeddings.detach().clone()
    loope.attach(model, "gilbert", prefix="learned")
    assert torch.equal(model.loope.prefixes["patches"].detach(), torch.cat((own[:, :1], own[:, -3:]), dim=1))
    assert loope.report(model).prefix_tokens == 4


def test_tables_in_blocks_are_part_of_the_models_own_encoding():
    model = loope.attach(make("YOLOS, tables in blocks"), "gilbert")
    assert "encoder.interpolation.mid_position_embeddings" in loope.report(model).set_aside
    loope.detach(model)
    loope.attach(model, "learned", init="own")  # the table alone would not do
    assert loope.report(model).keep_own
