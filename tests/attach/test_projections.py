"""Attention with positions calls the model's own layers, so that hooks, LoRA and quantised layers act."""

from collections import Counter

import peft
import pytest
import timm
import torch
from torch import nn

import loope
from tests.attach.models import MODELS, TIMM, images, loss, make, predict

# EVA and BEiT with one projection for queries, keys and values, whose bias is kept beside it.
FUSED = {"EVA, fused": lambda: timm.create_model("eva02_base_patch14_224", **TIMM, qkv_fused=True).eval()}
every_attention = pytest.mark.parametrize("name", [*MODELS, *FUSED])
in_attention = pytest.mark.parametrize("encoder", ["rope_mixed", "irpe"])  # one that rotates, one that biases


def attached(name: str, encoder: str) -> nn.Module:
    model = FUSED[name]() if name in FUSED else make(name)
    loope.attach(model, encoder)
    return model


def projections(model: nn.Module) -> dict[str, nn.Module]:
    """The linear layers of the attentions that an encoder acts in, by their names in the model."""
    ours = {attention for branch in model.loope.branches for attention in branch.attentions}
    return {
        f"{name}.{child}": layer
        for name, module in model.named_modules()
        if module in ours
        for child, layer in module.named_children()
        if isinstance(layer, nn.Linear)
    }


@every_attention
@in_attention
def test_hooks_on_the_projections_are_called(name, encoder):
    model, calls = attached(name, encoder), Counter()
    layers = projections(model)
    assert len(layers) >= 2 * 2  # two blocks, with a projection before and one after attention
    for each, layer in layers.items():
        layer.register_forward_hook(lambda module, args, out, each=each: calls.update([each]))
    predict(model)
    assert calls == Counter(list(layers))


@every_attention
@in_attention
def test_what_a_hook_on_a_projection_returns_acts(name, encoder):
    model = attached(name, encoder)
    before = predict(model)
    for layer in projections(model).values():
        handle = layer.register_forward_hook(lambda module, args, out: out * 1.5)
        assert not torch.allclose(predict(model), before)
        handle.remove()
    assert torch.equal(predict(model), before)


@every_attention
@in_attention
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # PEFT asks transformers for it
def test_lora_on_the_projections_gets_gradients(name, encoder):
    model = attached(name, encoder)
    targets = list(projections(model))
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=targets, init_lora_weights=False))
    loss(adapted.base_model.model, images(model)).backward()
    trained = {key: each.grad for key, each in adapted.named_parameters() if "lora_" in key}
    assert len(trained) == 2 * len(targets)
    assert all(grad is not None and grad.any() for grad in trained.values())


@every_attention
@in_attention
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:torch.quantize_per_tensor")
def test_a_quantised_model_runs(name, encoder):
    model = attached(name, encoder)
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    assert not any(isinstance(layer, nn.Linear) for layer in projections(quantised).values())
    expected, out = predict(model), predict(quantised)
    assert (out - expected).norm() < 0.2 * expected.norm()
    assert not torch.equal(out, expected)
