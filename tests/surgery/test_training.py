"""Training attached models: weight decay, layer decay, gradient checkpointing, training the encoder alone."""

import re
from collections import Counter

import pytest
import torch
from timm.models import group_parameters
from timm.optim import create_optimizer_v2
from timm.optim._param_groups import param_groups_layer_decay

import loope
from tests.surgery.matrix import every_encoder, every_model
from tests.surgery.models import TIMM_MODELS, images, loss, make, make_attached

STEM = re.compile(r"patch_embed|embeds\.proj")
every_timm_model = pytest.mark.parametrize("name", TIMM_MODELS)
# Parameters that are positions rather than weights; other encoders have weights only, or no parameters.
POSITIONS = {
    "learned": ["table"],
    "fourier": ["projection"],
    "irpe": ["tables"],
    "rope_mixed": ["frequencies"],
    "liere": ["generators"],
    "rel_pos_mlp": ["mlps.first", "mlps.start", "mlps.last"],
    "fire2d": ["scale", "threshold", "mlps.start"],
    "pape": ["projection", "start"],
    "factorized": ["rows", "columns"],
}
# The method's new and deprecated names in transformers, and its name in timm.
ENABLES_CHECKPOINTING = ("activation_checkpointing_enable", "gradient_checkpointing_enable", "set_grad_checkpointing")


@every_timm_model
@every_encoder
def test_positions_do_not_decay(name, encoder):
    own = make(name).no_weight_decay()
    model = make_attached(name, encoder, prefix="learned")
    names, branches = dict(model.named_parameters()), model.loope.branches
    ours = {f"loope.prefixes.{branch.name}" for branch in branches if branch.prefix}
    for parameter in POSITIONS.get(encoder, []):
        ours |= {f"loope.encoders.{number}.0.{parameter}" for number in range(len(branches))}
    exempt = model.no_weight_decay()
    assert {each for each in exempt if each.startswith("loope.") and not each.startswith("loope.own")} == ours
    assert ours <= set(names)
    assert {each for each in own if each in names} <= exempt  # the model's own exemptions are kept
    optimizer = create_optimizer_v2(model, "adamw", lr=0.1, weight_decay=0.05)
    decay = {id(each): group["weight_decay"] for group in optimizer.param_groups for each in group["params"]}
    for key, parameter in names.items():
        if key.startswith("loope.own"):
            assert id(parameter) not in decay, key
        else:
            assert (decay[id(parameter)] == 0) == (parameter.ndim <= 1 or key in exempt), key
    loope.detach(model)
    assert model.no_weight_decay() == own


@every_timm_model
@every_encoder
def test_layer_decay_treats_encoders_as_part_of_the_stem(name, encoder):
    own = make(name)
    model = make_attached(name, encoder, prefix="learned")
    before, layers = (group_parameters(each, each.group_matcher(), reverse=True) for each in (own, model))
    for key, layer in layers.items():
        assert layer == (0 if key.startswith("loope.") else before[key]), key
    assert {layer for key, layer in before.items() if STEM.search(key)} == {0}
    groups = param_groups_layer_decay(model, layer_decay=0.5)
    scale = {id(each): group["lr_scale"] for group in groups for each in group["params"]}
    trained = {key: scale[id(each)] for key, each in model.named_parameters() if each.requires_grad}
    stem = {value for key, value in trained.items() if STEM.search(key)}
    assert len(stem) == 1
    assert {value for key, value in trained.items() if key.startswith("loope.")} <= stem
    assert min(trained.values()) in stem
    assert max(trained.values()) == 1


@every_model
@every_encoder
def test_gradient_checkpointing_gives_the_same_gradients(name, encoder):
    gradients, runs = [], []
    for checkpointing in (False, True):
        model = make_attached(name, encoder).train()
        if checkpointing:
            enable = next(getattr(model, each) for each in ENABLES_CHECKPOINTING if hasattr(model, each))
            if name == "CrossViT":  # does not support it
                with pytest.raises(AssertionError, match="gradient checkpointing not supported"):
                    enable()
                return
            enable()
        count = Counter()
        for attention in model.loope.branches[0].attentions:  # inside a block, since hooks on blocks may run once
            attention.register_forward_pre_hook(lambda module, args, count=count: count.update([module]))
        loss(model, images(model)).backward()
        runs.append(set(count.values()))
        gradients.append({key: each.grad for key, each in model.named_parameters() if each.grad is not None})
    assert runs == [{1}, {2}]  # each attention runs again in the backward pass
    assert gradients[0].keys() == gradients[1].keys()
    for key in gradients[0]:
        torch.testing.assert_close(gradients[1][key], gradients[0][key], atol=1e-5, rtol=1e-3)


def test_each_of_several_encoders_is_named():
    model = make_attached("ViT", ["peg", "learned", "loope", "rope_mixed"])
    ours = {each for each in model.no_weight_decay() if each.startswith("loope.encoders")}
    assert (
        ours == {"loope.encoders.0.1.table", "loope.encoders.0.3.frequencies"} <= dict(model.named_parameters()).keys()
    )


def test_training_the_encoder_alone():
    model = make("ViT").train()
    model.norm.weight.requires_grad_(False)
    had = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    loope.attach(model, "learned", freeze_backbone=True)
    assert {name for name, p in model.named_parameters() if p.requires_grad} == {"loope.encoders.0.0.table"}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model(images(model)).square().sum().backward()
    optimizer.step()
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {"loope.encoders.0.0.table"}
    loope.detach(model)
    assert {name: parameter.requires_grad for name, parameter in model.named_parameters()} == had
