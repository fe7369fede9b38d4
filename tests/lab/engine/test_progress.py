"""What a run shows and what trackers get of it."""

import re
import signal

import pytest

from loope import LoopeError
from loope.lab.engine import tracking
from loope.lab.engine.signals import Interrupted
from loope.lab.engine.training import train
from tests.lab.engine.runs import plain_vit, recipe, sources, task
from tests.lab.engine.test_train import Asking


def fit(folder, learn=None, check=None, **options):
    own = sources()
    return train(plain_vit(), task(), learn or own[0], check or own[1], recipe(epochs=2), folder, **options)


def test_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("loope.lab.engine.progress.EVERY", 0.0)
    result = fit(tmp_path, name="probe", trackers=())
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert (out, len(lines)) == ("", 14)
    speed = r"[\d,]+ images/s  0:\d\d:\d\d left"
    assert re.fullmatch(rf"probe  epoch 1/2  step 1/6  loss 0\.\d{{4}}  {speed}", lines[0])
    last = result.history[-1]
    shown = f"loss {last['loss']:.4f}  likelihood {last['metrics']['likelihood']:.4f}"
    assert re.fullmatch(rf"probe  epoch 2/2 done  {re.escape(shown)}  {speed}", lines[-1])
    assert lines[-1].endswith("  0:00:00 left")


def test_a_progress_file_that_cannot_be_written_does_not_end_the_run(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert fit(tmp_path / "run", trackers=(), progress=tmp_path / "file" / "progress.json").epochs == 2


def test_few_lines(tmp_path, capsys):
    """One at the start, one for each epoch: seconds have not passed."""
    fit(tmp_path / "run", trackers=())
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  loss")[0] for line in lines] == [
        "run  epoch 1/2  step 1/6", "run  epoch 1/2 done", "run  epoch 2/2 done",
    ]  # fmt: skip


def test_nothing_if_not_wanted(tmp_path, capsys):
    fit(tmp_path, trackers=(), progress=False)
    assert capsys.readouterr() == ("", "")


def test_tensorboard_takes_up_its_curves(tmp_path, monkeypatch):
    """After an interruption and a crash every point is logged once and matches the history."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr("loope.lab.engine.loop.LOG_EVERY", 2)
    learn = sources()[0]
    with pytest.raises(Interrupted):
        fit(tmp_path, learn=Asking(learn, 4, signal.SIGTERM), progress=False)
    with pytest.raises(RuntimeError, match="a crash"):  # no trackers named: TensorBoard, which is installed
        fit(tmp_path, learn=Asking(learn, 6, None), progress=False)  # step 8 is logged, step 6 was saved
    result = fit(tmp_path, progress=False)
    curves = EventAccumulator(str(tmp_path / "trackers" / "loope")).Reload()
    for name, values in {
        "loss": [entry["loss"] for entry in result.history],
        "lr": [entry["lr"] for entry in result.history],
        "likelihood": [entry["metrics"]["likelihood"] for entry in result.history],
    }.items():
        assert [point.step for point in curves.Scalars(name)] == [6, 12]
        assert [point.value for point in curves.Scalars(name)] == pytest.approx(values, rel=1e-6)
    assert [point.step for point in curves.Scalars("step/loss")] == [2, 4, 6, 8, 10, 12]


def test_trackers_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(LoopeError, match="Unknown tracker 'tensorbord'; use one of: tensorboard"):
        fit(tmp_path, trackers=("tensorbord",))
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(LoopeError, match="The tracker 'wandb' is not installed: pip install wandb"):
        fit(tmp_path, trackers=("wandb",))
    assert tracking.chosen(None) == []
    assert not list(tmp_path.iterdir())
