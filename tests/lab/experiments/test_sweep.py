"""Many runs: what is done stays done, what fails does not stop the others, and any executor can carry them."""

import dataclasses
import json
import os
import re
import signal
import threading
import time

import pytest

from loope.lab.engine.lock import locked
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.signals import Interrupted
from loope.lab.executors import create_executor
from loope.lab.experiments import runner
from loope.lab.experiments.presets import measured, three_cell_run
from loope.lab.experiments.report import make_results_table
from loope.lab.experiments.results import RESULT, Results, folder_of, read_result
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Encoder
from loope.lab.experiments.sweep import run_sweep
from loope.lab.experiments.table import PRESETS, get_table, table_names

HERE = Settings(workers=0)


def bad(run):
    return dataclasses.replace(run, encoder=Encoder(name="gilbert", options={"nonsense": 1}))


def test_failures_do_not_stop_the_others_and_are_tried_again(tmp_path):
    good, broken = measured("smoke", "gilbert"), bad(measured("smoke", "gilbert"))
    with create_executor("here") as executor:
        outcome = run_sweep([broken, good, good], tmp_path, executor, HERE)
    assert [each.state for each in outcome.statuses] == ["failed", "done"]
    assert list(outcome.failures) == [broken.name]
    assert "nonsense" in outcome.failures[broken.name]
    first = (folder_of(good, tmp_path) / RESULT).stat()
    tried = []
    with create_executor("here") as executor:
        submit = executor.submit
        executor.submit = lambda function, text, *args: (tried.append(json.loads(text)), submit(function, text, *args))[
            1
        ]
        run_sweep([broken, good], tmp_path, executor, HERE)
    assert [each["encoder"]["options"] for each in tried] == [{"nonsense": 1}]
    assert (folder_of(good, tmp_path) / RESULT).stat() == first


def test_ctrl_c_here_ends_the_runs_that_were_to_come(tmp_path, monkeypatch):
    def interrupted(text, out, settings):
        tried.append(text)
        raise Interrupted("stopped and saved")

    tried = []
    monkeypatch.setattr(runner, "execute", interrupted)
    runs = [measured("smoke", name) for name in ("gilbert", "sinusoid")]
    with pytest.raises(KeyboardInterrupt), create_executor("here") as executor:
        run_sweep(runs, tmp_path, executor, HERE)
    assert tried == [runs[0].to_json()]


def test_processes_that_share_a_run_do_not_leave_it_to_each_other(tmp_path, monkeypatch):
    """One that comes late must not take the run for another sweep's."""
    run, tried = measured("smoke", "gilbert"), []
    monkeypatch.setattr(runner, "execute", lambda text, out, settings: tried.append(text))
    with locked(folder_of(run, tmp_path)):
        for processes in ("1", "2"):
            monkeypatch.setenv("WORLD_SIZE", processes)
            with create_executor("here") as executor:
                run_sweep([run], tmp_path, executor, HERE)
            assert len(tried) == int(processes) - 1


def test_processes_of_this_machine(tmp_path):
    runs = [measured("smoke", name) for name in ("gilbert", "sinusoid")]
    with create_executor("local", jobs=2) as executor:
        outcome = run_sweep([*runs, bad(runs[0])], tmp_path, executor, HERE)
    assert [each.state for each in outcome.statuses] == ["done", "done", "failed"]
    assert all(each.result["metrics"]["m_u"] > 1 for each in outcome.statuses[:2])


def long_run(encoder, seed=0):
    """Long enough to be killed in the middle."""
    run = three_cell_run("smoke", encoder).with_seed(seed)
    data = dataclasses.replace(run.data, options={**run.data.options, "size": 400})
    return dataclasses.replace(run, data=data, recipe=Recipe(epochs=15, batch_size=8))


@pytest.mark.slow  # starts Ray; tests/lab/engine/test_executors_ray.py kills workers in `make test`
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_survives_the_loss_of_a_worker_and_runs_nothing_twice(tmp_path):
    """Two real workers; one is killed in the middle of training. The table completes, each result is written once."""
    runs = [long_run("sincos2d"), long_run("none"), measured("smoke", "gilbert")]
    victim = folder_of(runs[0], tmp_path)
    killed, written, over = [], {run.name: set() for run in runs}, threading.Event()

    def kill_once_it_trains():
        while not over.wait(0.005):
            for run in runs:
                file = folder_of(run, tmp_path) / RESULT
                if file.exists():
                    written[run.name].add(file.stat().st_ino)  # each writing renames a new file
            if not killed and any((victim / "checkpoints").glob("epoch-*")):
                process = re.match(r"process (\d+)", (victim / "lock").read_text())
                if process:
                    os.kill(int(process[1]), signal.SIGKILL)
                    killed.append(int(process[1]))

    watcher = threading.Thread(target=kill_once_it_trains)
    with create_executor("ray", jobs=2) as executor:
        watcher.start()
        try:
            outcome = run_sweep(runs, tmp_path, executor, HERE)
        finally:
            time.sleep(0.05)  # for the watcher to see the last file
            over.set()
            watcher.join()
    assert killed
    assert [each.state for each in outcome.statuses] == ["done"] * 3
    assert not outcome.failures
    assert all(len(times) == 1 for times in written.values())
    with create_executor("here") as executor:
        alone = run_sweep(runs[:1], tmp_path / "alone", executor, HERE).statuses[0].result
    again = read_result(victim)
    assert again["metrics"] == alone["metrics"]  # as if nothing had happened
    assert len(again["history"]) == 15


@pytest.mark.parametrize("name", table_names())
def test_every_table_can_be_computed(name, tmp_path_factory):
    """The smoke preset of all tables; they share a folder, so that runs they share are done once."""
    out = tmp_path_factory.getbasetemp() / "smoke"
    table = get_table(name)
    with create_executor("here") as executor:
        outcome = run_sweep([entry.run for entry in table.entries("smoke")], out, executor, HERE)
    assert not outcome.failures
    sheet = make_results_table(table, "smoke", [0], Results.in_folder(out))
    filled = {(entry.row, column) for entry in table.entries("smoke") for column in entry.cells}
    rows = {row for row, _ in filled}
    for row, cells in sheet.rows:
        for column, cell in zip(sheet.columns, cells, strict=True):
            assert row not in rows or (cell.ours is not None) == ((row, column) in filled)
    assert rows <= set(dict(sheet.rows))


def test_presets_are_those_of_the_command_line():
    assert PRESETS == ("smoke", "laptop", "paper")
