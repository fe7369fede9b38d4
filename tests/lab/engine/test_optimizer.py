"""Who decays, whose rate is scaled, and memory as tensors and back."""

import pytest
import torch
from torch import nn

from loope import LoopeError
from loope.lab.engine.optimizer import create_optimizer, restore, set_learning_rate, state_tensors
from tests.lab.engine.runs import recipe, vit


def by_name(optimizer, model, entry):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(p)]: group.get(entry) for group in optimizer.param_groups for p in group["params"]}


def test_weight_decay_spares_what_should_not_decay():
    model = vit()
    decays = by_name(create_optimizer(model, recipe(weight_decay=0.1)), model, "weight_decay")
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert decays.keys() == trained.keys()
    spared = model.no_weight_decay()
    assert "cls_token" in spared
    for name, parameter in trained.items():
        assert decays[name] == (0.0 if parameter.ndim <= 1 or name in spared else 0.1), name


def test_layer_decay_scales_each_layer():
    """Two blocks: the last block and the norm are one layer below the head, the first two, stem and LOOPE three."""
    model = vit()
    optimizer = create_optimizer(model, recipe(layer_decay=0.5, weight_decay=0.1))
    set_learning_rate(optimizer, 0.8)
    rates = by_name(optimizer, model, "lr")
    layers = {"head": 0, "norm": 1, "blocks.1": 1, "blocks.0": 2, "patch_embed": 3, "cls_token": 3, "loope": 3}
    for name, rate in rates.items():
        (depth,) = [down for start, down in layers.items() if name.startswith(start)]
        assert rate == pytest.approx(0.8 * 0.5**depth), name


def test_layer_decay_needs_layers():
    with pytest.raises(LoopeError, match=r"group_matcher.*Linear does not; pass layer_decay=None"):
        create_optimizer(nn.Linear(2, 2), recipe(layer_decay=0.5))


def test_frozen_parameters_are_left_out():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert set(by_name(create_optimizer(model, recipe(weight_decay=0.1)), model, "lr")) == {"1.weight", "1.bias"}
    model.requires_grad_(False)
    with pytest.raises(LoopeError, match="No parameter of Sequential takes a gradient"):
        create_optimizer(model, recipe())


@pytest.mark.parametrize(("kind", "expected"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_kinds(kind, expected):
    assert type(create_optimizer(nn.Linear(2, 2), recipe(optimizer=kind))) is expected


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.1, "layer_decay": 0.7}, {"optimizer": "muon", "weight_decay": 0.1}]
)
def test_memory_survives_as_tensors(options):
    """An optimizer that was given another's memory takes the same steps from then on."""
    models = [vit(), vit()]
    optimizers = [create_optimizer(model, recipe(**options)) for model in models]

    def step(number, seed):
        gradients = torch.Generator().manual_seed(seed)
        for parameter in models[number].parameters():
            parameter.grad = torch.randn(parameter.shape, generator=gradients) if parameter.requires_grad else None
        optimizers[number].step()

    for seed in range(3):
        step(0, seed)
    models[1].load_state_dict(models[0].state_dict())
    tensors = {name: tensor.clone() for name, tensor in state_tensors(optimizers[0], models[0]).items()}
    assert tensors["head.weight.step"] == 3
    restore(optimizers[1], models[1], tensors)
    for seed in (7, 8):
        step(0, seed)
        step(1, seed)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_muon_trains_the_matrices_of_blocks_and_adamw_the_rest():
    model = vit()
    chosen = recipe(optimizer="muon", weight_decay=0.1, beta2=0.95)
    optimizer = create_optimizer(model, chosen)
    decays, momentum = (by_name(optimizer, model, entry) for entry in ("weight_decay", "momentum"))
    assert decays == by_name(create_optimizer(model, recipe(weight_decay=0.1)), model, "weight_decay")
    matrices = {name for name, of_muon in momentum.items() if of_muon is not None}
    layers = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    assert matrices == {f"blocks.{block}.{layer}.weight" for block in (0, 1) for layer in layers}
    twin = vit()
    expected = torch.optim.Muon(
        [twin.blocks[0].attn.proj.weight], lr=chosen.lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    rest = torch.optim.AdamW([twin.head.weight], lr=chosen.lr, weight_decay=0.1, betas=(0.9, 0.95))
    for step in range(3):
        for each in (model, twin):
            for parameter, seed in ((each.blocks[0].attn.proj.weight, step), (each.head.weight, step + 10)):
                parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
        for one in (optimizer, expected, rest):
            one.step()
    assert torch.equal(model.blocks[0].attn.proj.weight, twin.blocks[0].attn.proj.weight)
    assert torch.allclose(model.head.weight, twin.head.weight, rtol=1e-6, atol=0)
    assert not torch.equal(model.head.weight, vit().head.weight)


def test_muon_needs_blocks():
    with pytest.raises(LoopeError, match="Linear has none"):
        create_optimizer(nn.Linear(2, 2), recipe(optimizer="muon"))


def test_beta2_is_the_recipes():
    for kind in ("adam", "adamw"):
        (group,) = create_optimizer(nn.Linear(2, 2), recipe(optimizer=kind, beta2=0.9)).param_groups
        assert group["betas"] == (0.9, 0.9)
