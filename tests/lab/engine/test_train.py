"""What `train` and `evaluate` promise besides exact resuming."""

import math
import random
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from loope import LoopeError
from loope.lab.engine import distributed
from loope.lab.engine.evaluation import evaluate
from loope.lab.engine.schedule import learning_rate
from loope.lab.engine.signals import Interrupted
from loope.lab.engine.training import train
from tests.lab.engine.processes import SETTINGS
from tests.lab.engine.runs import plain_vit, recipe, sources, task, vit
from tests.lab.engine.training_helpers import Asking, fit

# --- what is learned


def test_against_a_bare_loop(tmp_path):
    """The same steps as a loop that anyone would write, bit for bit."""
    ours, bare = plain_vit(), plain_vit()
    learn, check = sources()
    settings = recipe(epochs=2, clip=0.5, accumulate=2)
    result = train(ours, task(), learn, check, settings, tmp_path, **SETTINGS)

    optimizer = torch.optim.AdamW(bare.parameters(), weight_decay=0.0)
    for epoch in range(2):
        batches, losses = list(learn.batches(epoch)), []
        for step in range(3):
            optimizer.zero_grad()
            for images, bits in batches[2 * step : 2 * step + 2]:
                bare.train()
                loss = nn.functional.binary_cross_entropy_with_logits(bare(images), bits.float())
                (loss / 2).backward()
                losses.append(loss.item())
            nn.utils.clip_grad_norm_(bare.parameters(), 0.5)
            optimizer.param_groups[0]["lr"] = learning_rate(settings, 3 * epoch + step, 3)
            optimizer.step()
        assert result.history[epoch]["loss"] == pytest.approx(sum(losses) / 6, rel=1e-7)
        assert result.history[epoch]["lr"] == learning_rate(settings, 3 * epoch + 2, 3)
    for name, tensor in bare.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor), name

    bare.eval()
    with torch.no_grad():
        total = sum(
            nn.functional.binary_cross_entropy_with_logits(bare(images).double(), bits.double(), reduction="sum")
            for images, bits in check.batches(0)
        )
    assert result.metrics == {"likelihood": pytest.approx(-total.item() / 17 / 6, rel=1e-12), "samples": 17}


def test_result_and_files(tmp_path):
    model = vit()
    result = fit(tmp_path, model, epochs=3)
    assert (result.epochs, result.steps) == (3, 18)
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3]
    assert result.metrics == result.history[-1]["metrics"]
    scores = [entry["metrics"]["likelihood"] for entry in result.history]
    assert result.best == result.history[result.best_epoch - 1]["metrics"]
    assert result.best["likelihood"] == max(scores)
    assert 0 < result.history[0]["seconds"] < result.history[1]["seconds"] <= result.seconds
    assert result.images_per_second > 0
    assert not model.training
    for name, tensor in load_file(result.weights).items():
        assert torch.equal(model.state_dict()[name], tensor)
    best = vit(seed=5)
    best.load_state_dict(load_file(result.best_weights))
    assert evaluate(best, task(), sources()[1]) == result.best
    assert not list(tmp_path.rglob("*.pt")) + list(tmp_path.rglob("*.pkl"))  # nothing that could run code


def test_dropout_differs_by_step_and_seed(tmp_path):
    class Noise(nn.Module):
        """Notes what it draws from each generator."""

        def __init__(self):
            super().__init__()
            self.weight, self.seen = nn.Parameter(torch.zeros(6)), []

        def forward(self, images):
            if self.training:
                self.seen.append((torch.rand(()).item(), random.random(), np.random.rand()))
            return self.weight.expand(len(images), 6)

    models = [Noise() for _ in range(3)]
    for number, (model, seed) in enumerate(zip(models, (0, 0, 1), strict=True)):
        fit(tmp_path / str(number), model, seed=seed)
    assert models[0].seen == models[1].seen
    for draws in zip(*models[0].seen, *models[2].seen, strict=True):
        assert len(set(draws)) == 24  # two runs of twelve steps, no number twice


def test_modes(tmp_path):
    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.seen = plain_vit(), []

        def forward(self, images):
            self.seen.append((self.training, self.model.blocks[0].training, torch.is_inference_mode_enabled()))
            return self.model(images)

    model = Watched()
    fit(tmp_path, model)
    epoch = [(True, True, False)] * 6 + [(False, False, True)] * 3
    assert model.seen == epoch * 2

    model.train()
    model.model.blocks[1].eval()
    evaluate(model, task(), sources()[1])
    assert model.seen[-1] == (False, False, True)
    assert (model.training, model.model.blocks[0].training, model.model.blocks[1].training) == (True, True, False)


def test_frozen_parts_stay(tmp_path):
    model = vit()
    model.requires_grad_(False)
    model.loope.encoders.requires_grad_(True)
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    fit(tmp_path, model)
    changed = {name for name, tensor in model.named_parameters() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith("loope.encoders.") for name in changed)


def test_evaluate_then_train(tmp_path):
    """What an evaluation leaves in a model's caches must not stand in the way of gradients."""
    model = plain_vit()
    evaluate(model, task(), sources()[1])
    fit(tmp_path, model)


# --- precisions


def test_bfloat16_on_a_cpu(tmp_path):
    class Types(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.seen = plain_vit(), set()
            self.model.blocks[0].mlp.fc1.register_forward_hook(lambda _, __, out: self.seen.add(out.dtype))

        def forward(self, images):
            return self.model(images)

    model = Types()
    result = fit(tmp_path, model, precision="bfloat16")
    assert model.seen == {torch.bfloat16}  # in training and evaluation
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert math.isfinite(result.history[-1]["loss"])
    model.seen.clear()
    model(next(sources()[1].batches(0))[0])
    assert model.seen == {torch.float32}  # the model is as it was: precision belongs to the run
    assert evaluate(model, task(), sources()[1], precision="bfloat16") == result.metrics
    assert evaluate(model, task(), sources()[1])["likelihood"] == pytest.approx(result.metrics["likelihood"], rel=0.01)


def test_float16_needs_a_gpu(tmp_path):
    if torch.accelerator.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(LoopeError, match="float16 needs a GPU, this process computes on cpu; use precision='bfloat16'"):
        fit(tmp_path, precision="float16")
    with pytest.raises(LoopeError, match="Unknown precision 'half'"):
        evaluate(vit(), task(), sources()[1], precision="half")


def test_gradient_scaler_resumes(tmp_path, monkeypatch):
    """float16's scaler, here on a CPU: its scale and its count of good steps are part of the state."""
    make = distributed._accelerator

    def with_scaler(*arguments):
        accelerator = make(*arguments)
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=4)
        return accelerator

    monkeypatch.setattr(distributed, "_accelerator", with_scaler)
    whole, parts = vit(), vit()
    result = fit(tmp_path / "whole", whole, clip=None)
    learn, check = sources()
    with pytest.raises(Interrupted):
        fit(tmp_path / "parts", parts, clip=None, sources=(Asking(learn, 6, signal.SIGTERM), check))
    again = fit(tmp_path / "parts", vit(seed=1), clip=None)
    assert again.weights.read_bytes() == result.weights.read_bytes()
    states = [(path.weights.parent / "state.json").read_text() for path in (result, again)]
    for state in states:
        assert '"scale": 32.0' in state  # grown three times in twelve steps, also over the interruption
        assert '"_growth_tracker": 0' in state
