"""Tasks that change in the course of a run, also across an interruption; and displays of the caller's choice."""

import signal

import pytest
import torch

import loope
from loope.lab.engine.progress import Display
from loope.lab.engine.signals import Interrupted
from loope.lab.engine.training import train
from tests.lab.engine.processes import SETTINGS
from tests.lab.engine.runs import plain_vit, recipe, sources, task
from tests.lab.engine.training_helpers import Asking


class Rising:
    """The ready task, with an encoder that comes in by degrees."""

    def __init__(self, model):
        self.model, self.seen, self.inner = model, [], task()
        self.headline, self.metrics, self.loss = self.inner.headline, self.inner.metrics, self.inner.loss

    def before_step(self, done, total):
        self.seen.append((done, total))
        loope.set_strength(self.model, (done + 1) / total / 3)


def fit(folder, data=None, **more):
    model = plain_vit()
    work = Rising(model)
    learn, check = data or sources()
    try:
        train(model, work, learn, check, recipe(epochs=2), folder, **{**SETTINGS, **more})
    except Interrupted:
        return None, work.seen
    return model, work.seen


def test_each_step_is_announced_and_a_resumed_run_goes_on_there(tmp_path):
    whole, seen = fit(tmp_path / "whole")
    assert seen == [(step, 12) for step in range(12)]
    learn, check = sources()
    stopped, first = fit(tmp_path / "parts", (Asking(learn, 8, signal.SIGINT), check))
    assert stopped is None
    resumed, rest = fit(tmp_path / "parts")
    assert first + rest == seen
    assert len(first) in range(7, 10)
    assert resumed.loope.strengths == whole.loope.strengths == (pytest.approx(1 / 3), 1.0)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_display_can_be_given(tmp_path):
    shown = []

    class Noting(Display):
        def show(self, state):
            shown.append((state.epoch, state.step))

        def close(self):
            shown.append("closed")

    fit(tmp_path, progress=Noting)
    assert shown[:2] == [(0, 1), (0, 2)]
    assert shown[-2:] == [(2, 0), "closed"]
