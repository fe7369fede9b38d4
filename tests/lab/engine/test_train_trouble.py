"""Runs that are interrupted, done twice, started differently, or go wrong."""

import dataclasses
import os
import signal
import threading

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from loope import LoopeError, LoopeWarning
from loope.lab.engine import loop, training
from loope.lab.engine.signals import Interrupted
from loope.lab.engine.training import train
from tests.lab.engine.processes import Trainer
from tests.lab.engine.runs import Cells, Lost, plain_vit, recipe, sources, task, vit
from tests.lab.engine.training_helpers import Asking, fit


def without_head():
    model = vit()
    model.head.requires_grad_(False)
    return model


# --- going on, or not


def test_finished_is_finished(tmp_path, monkeypatch):
    first = fit(tmp_path)
    monkeypatch.setattr(Cells, "draw", None)  # nothing is to be drawn any more
    model = vit(seed=9)
    assert fit(tmp_path, model) == first
    for name, tensor in load_file(first.weights).items():
        assert torch.equal(model.state_dict()[name], tensor)
    assert not model.training


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: {"lr": 0.5}, "recipe.lr was 0.003 and is 0.5"),
        (lambda: {"epochs": 3, "clip": None}, r"recipe.epochs was 2 and is 3; recipe.clip was 1.0 and is None\."),
        (lambda: {"seed": 7}, "seed was 0 and is 7"),
        (lambda: {"sources": sources(train=56)}, "training samples was 48 and is 56"),
        (lambda: {"sources": sources(valid=9)}, "validation samples was 17 and is 9"),
        (lambda: {"model": vit(mlp_ratio=2)}, r"mlp.fc1.bias was \(96,\) and is \(48,\).* and \d more"),
        (lambda: {"model": without_head()}, "trained parameters was 35641 and is 35491"),
    ],
)
def test_another_run_is_refused(tmp_path, change, message):
    fit(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(LoopeError, match=message) as error:
        fit(tmp_path, **change())
    assert "holds a run that was started differently" in str(error.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before


def test_a_checkpoint_from_before_a_field_of_the_recipe_is_accepted(tmp_path, monkeypatch):
    def earlier(recipe):
        return {name: value for name, value in dataclasses.asdict(recipe).items() if name != "beta2"}

    with monkeypatch.context() as patch:
        patch.setattr(training, "asdict", earlier)
        first = fit(tmp_path)
    assert fit(tmp_path) == first


def test_damaged_checkpoint_in_a_run(tmp_path):
    whole = fit(tmp_path / "whole")
    result = fit(tmp_path / "run")
    data = bytearray(result.weights.read_bytes())
    data[-1] ^= 1
    result.weights.write_bytes(data)
    with pytest.warns(LoopeWarning, match="epoch-00002-step-0000000 is damaged"):
        again = fit(tmp_path / "run")
    assert again.weights.read_bytes() == whole.weights.read_bytes()


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("number", "where", "left"), [(3, "step 3 of epoch 1", 15), (7, "step 6 of epoch 1", 12)])
def test_interrupt_saves_and_says_how_to_resume(tmp_path, what, number, where, left):
    """In a step, which is finished, and in an evaluation, which is begun again: 9 batches an epoch, two epochs."""
    before = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    learn, check = sources()
    pair = (Asking(learn, number, what), check) if number <= 6 else (learn, Asking(check, 1, what))
    with pytest.raises(Interrupted, match=rf"Stopped after {where}, saved as .*run the same command again to go on"):
        fit(tmp_path / "run", sources=pair)
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == before
    counting = [Asking(source, -1, what) for source in sources()]
    again = fit(tmp_path / "run", vit(seed=1), sources=counting)
    assert sum(-1 - source.left for source in counting) == left
    assert again.weights.read_bytes() == fit(tmp_path / "whole").weights.read_bytes()


def test_second_ctrl_c_stops_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("loope.lab.engine.signals.PATIENCE", -1.0)

    class Twice(Asking):
        def draw(self, chosen):
            if self.left == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return super().draw(chosen)

    learn, check = sources()
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, sources=(Twice(learn, 2, signal.SIGINT), check))


def test_in_a_thread(tmp_path):
    """Where signals cannot be caught training works all the same."""
    results = []
    thread = threading.Thread(target=lambda: results.append(fit(tmp_path)))
    thread.start()
    thread.join()
    assert results[0].epochs == 2


# --- what goes wrong


def test_loss_that_is_not_finite(tmp_path):
    model = Lost(plain_vit(), after=9)
    with pytest.raises(LoopeError, match=r"The loss is nan at step 3 of epoch 2; training has stopped") as error:
        fit(tmp_path, model)
    assert "epoch-00001-step-0000002 has the last good state" in str(error.value)
    assert "lower lr" in str(error.value)
    weights = load_file(tmp_path / "checkpoints" / "epoch-00001-step-0000002" / "weights.safetensors")
    for name, tensor in model.state_dict().items():  # nothing of it has reached the weights
        assert torch.equal(tensor, weights[name])
        assert bool(tensor.isfinite().all())


def test_the_step_is_named_where_not_each_is_looked_at(tmp_path, monkeypatch):
    """As on a GPU, whose losses are read now and then."""
    looked_at = loop.Loop._is_look
    monkeypatch.setattr(loop.Loop, "_is_look", lambda self: looked_at(self) and (self.state.step + 1) % 6 == 0)
    with pytest.raises(LoopeError, match=r"The loss is nan at step 3 of epoch 2; training has stopped"):
        fit(tmp_path, Lost(plain_vit(), after=9), checkpoint_steps=None)


def test_losses_are_those_of_a_run_that_looks_at_each(tmp_path, monkeypatch):
    expected = fit(tmp_path / "each").history
    looked_at = loop.Loop._is_look
    monkeypatch.setattr(loop.Loop, "_is_look", lambda self: looked_at(self) and (self.state.step + 1) % 3 == 0)
    found = fit(tmp_path / "some").history
    assert [each["loss"] for each in found] == pytest.approx([each["loss"] for each in expected], rel=1e-12)


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    """An infinite gradient under a finite loss."""

    class Steep(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.root = plain_vit(), nn.Parameter(torch.ones(()))
            self.left = 4

        def forward(self, images):
            self.left -= self.training
            steep = (self.root - self.root.detach()).abs().add(0.0).sqrt() if self.left == 0 else 0 * self.root
            return self.model(images) + steep

    with pytest.raises(LoopeError, match="The weights are NaN or infinite at step 4 of epoch 1") as error:
        fit(tmp_path, Steep(), clip=None)
    assert "epoch-00000-step-0000002 has the last good state" in str(error.value)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["epoch-00000-step-0000002"]


def test_two_cannot_train_into_a_folder(tmp_path):
    first = Trainer(tmp_path, "batch", 2)
    first.wait()
    (pid,) = [process.pid for process in first.processes]
    with pytest.raises(LoopeError, match=rf"process {pid} on .* is training into {tmp_path}; wait until it ends"):
        fit(tmp_path)
    first.kill()
    assert fit(tmp_path, epochs=3).epochs == 3  # a lock that was left behind holds nobody up


def test_nor_one_process_twice(tmp_path):
    class Again(Asking):
        def draw(self, chosen):
            self.left -= 1
            if self.left == 0:
                for _ in range(2):  # the refusal does not free the lock either
                    with pytest.raises(LoopeError, match="this one, is training into"):
                        fit(tmp_path)
                other = Trainer(tmp_path)
                assert f"process {os.getpid()} on" in other.wait()[0]["error"]
            return Cells.draw(self, chosen)

    learn, check = sources()
    assert fit(tmp_path, sources=(Again(learn, 3, signal.SIGINT), check)).epochs == 2


def test_sources_that_do_not_keep_their_word(tmp_path):
    class Short(Cells):
        def batches(self, epoch, start=0, share=(0, 1)):
            return iter(list(super().batches(epoch, start, share))[:-1])

    learn, check = sources()
    with pytest.raises(LoopeError, match=r"share of 16 / 1 samples .* for step 1 of epoch 1 came 8 samples"):
        fit(tmp_path / "a", batch_size=16)
    with pytest.raises(LoopeError, match="for step 6 of epoch 1 came the end"):
        fit(tmp_path / "b", sources=(Short(learn.data, 8, True), check))
    with pytest.raises(LoopeError, match="the source has 17 and gave 16"):
        fit(tmp_path / "c", sources=(learn, Short(check.data, 8, False)))
    with pytest.raises(LoopeError, match="An epoch has 6 batches, which do not fill a step of 7"):
        fit(tmp_path / "d", accumulate=7)
    with pytest.raises(LoopeError, match="`checkpoint_steps` must be a whole number from 1 up, got 0"):
        train(vit(), task(), learn, check, recipe(), tmp_path / "e", checkpoint_steps=0)
