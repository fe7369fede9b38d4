"""Training in two processes on gloo learns, scores, saves and refuses the same as in one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.lab.engine.processes import Trainer, kill, run
from tests.lab.engine.test_resume import last_files, timeless

TWO = {"model": "plain_vit", "processes": 2}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return run(tmp_path_factory.mktemp("alone"), model="plain_vit", accumulate=2)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    trainer = Trainer(folder, **TWO, accumulate=2)
    return folder, trainer.wait()


def test_two_processes_learn_what_one_does(alone, together):
    _, (result, other) = together
    assert timeless(other) == timeless(result)  # all processes return it
    assert result["best_epoch"] == alone["best_epoch"]
    for ours, theirs in zip(result["history"], alone["history"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6)
        assert ours["metrics"]["likelihood"] == pytest.approx(theirs["metrics"]["likelihood"], rel=1e-6)
        assert ours["metrics"]["samples"] == 17  # 8, 8, and one on the first process only
    weights, expected = load_file(result["weights"]), load_file(alone["weights"])
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-4, atol=1e-6)


def test_two_killed_processes_resume_to_the_same_bytes(together, tmp_path):
    for place, number in [("batch", 5), ("batch", 9)]:
        kill(tmp_path, place, number, **TWO, accumulate=2)
    again = run(tmp_path, **TWO, accumulate=2)
    folder, (result, _) = together
    assert timeless(again) == timeless(result)
    assert last_files(tmp_path) == last_files(folder)
    assert again["drawn"] < result["drawn"]


def test_batch_norm_of_the_first_process_is_scored_by_all(tmp_path):
    """Each process sees other halves of the batches; the statistics of the first one are scored and saved."""
    one, other = Trainer(tmp_path, processes=2).wait()
    assert timeless(one) == timeless(other)


def test_all_stop_if_one_gets_a_bad_loss(tmp_path):
    answers = Trainer(tmp_path, model="lost_on_second", processes=2).wait()
    assert [answer["kind"] for answer in answers] == ["LoopeError"] * 2
    for answer in answers:
        assert "The loss is nan at step 4 of epoch 1" in answer["error"]
        assert "epoch-00000-step-0000002 has the last good state" in answer["error"]


def test_all_stop_when_one_is_asked(tmp_path, together):
    trainer = Trainer(tmp_path, "batch", 5, **TWO, accumulate=2)
    trainer.wait()
    os.kill(trainer.processes[1].pid, signal.SIGTERM)
    trainer.resume()
    answers = trainer.wait()
    assert [answer["kind"] for answer in answers] == ["Interrupted"] * 2
    assert "run the same command again to go on" in answers[0]["error"]
    assert timeless(run(tmp_path, **TWO, accumulate=2)) == timeless(together[1][0])


def test_all_report_the_lock(tmp_path):
    first = Trainer(tmp_path, "batch", 1, model="plain_vit")
    first.wait()
    answers = Trainer(tmp_path, **TWO).wait()
    first.kill()
    for answer in answers:
        assert f"process {first.processes[0].pid} on" in answer["error"]


def test_a_batch_that_cannot_be_shared(tmp_path):
    answers = Trainer(tmp_path, model="plain_vit", processes=3).wait()
    assert all("a multiple of the number of processes" in answer["error"] for answer in answers)


def test_torchrun(together, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["-m", "tests.lab.engine.program", str(tmp_path)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(printed) == 2
    expected = together[1][0]["history"]
    for one in printed:
        assert [entry["loss"] for entry in one["history"]] == [entry["loss"] for entry in expected]
        assert one["evaluated"] == expected[-1]["metrics"]
    assert list((tmp_path / "trackers").rglob("events*"))
