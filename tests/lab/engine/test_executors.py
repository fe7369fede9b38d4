"""Executors on this machine: a process for each call, and what happens when one is lost or all are stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loope.core.errors import LoopeError
from loope.lab.executors import RunError, create_executor, local
from tests.lab.engine.submitted import lines, meet, save_when_asked, until, work, write_threads

ROOT = Path(__file__).parents[3]


def test_five_calls_two_at_a_time_of_which_two_are_lost(tmp_path):
    thens = ("end", "raise", "kill", "end", "end")
    with create_executor("local", jobs=2) as executor:
        futures = [executor.submit(work, str(tmp_path), f"run {i}", 2, then) for i, then in enumerate(thens)]
        until(lambda: len(lines(tmp_path / "started")) == 2)  # at the same time: neither ends before `go`
        assert [future.running() for future in futures] == [True, True, False, False, False]
        (tmp_path / "go").touch()
        errors = [future.exception(timeout=300) for future in futures]
    assert sorted(lines(tmp_path / "started")) == [f"run {i}" for i in range(5)]
    assert sorted(lines(tmp_path / "ended")) == ["run 0", "run 3", "run 4"]
    assert [type(error) for error in errors] == [type(None), RunError, RunError, type(None), type(None)]
    assert "exit code 1" in str(errors[1])
    assert str(errors[1]).endswith("ValueError: run 1 knows no such order")
    assert "signal 9 (Killed)" in str(errors[2])


def test_leaving_cancels_what_waits_and_finishes_what_runs(tmp_path):
    with create_executor(jobs=1) as executor:
        futures = [executor.submit(work, str(tmp_path), name) for name in ("first", "second")]
        until(lambda: lines(tmp_path / "started"))
        (tmp_path / "go").touch()
    assert futures[0].exception() is None
    assert lines(tmp_path / "ended") == ["first"]
    assert futures[1].cancelled()


@pytest.mark.parametrize(
    ("cores", "chosen", "threads"), [(7, None, "3"), (3, None, "1"), (1, None, "1"), (7, "2", "2"), (3, "", "1")]
)
def test_cores_are_shared(tmp_path, monkeypatch, cores, chosen, threads):
    monkeypatch.setattr(local, "usable_cores", lambda: cores)
    monkeypatch.setattr(local, "visible_gpus", list)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    load_torch = cores == 3 and chosen is None
    with create_executor(jobs=2) as executor:
        executor.submit(write_threads, str(tmp_path / "found"), load_torch).result()
    found = json.loads((tmp_path / "found").read_text())
    # Torch has read it: it was there before torch, which would take all cores.
    assert found == [threads, os.environ.get("CUDA_VISIBLE_DEVICES"), *([1] if load_torch else [])]


def test_each_process_has_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "visible_gpus", lambda: ["3", "GPU-5"])
    with create_executor() as executor:  # one for each GPU
        for pair in ("ab", "cd"):
            count = len(lines(tmp_path / "gpus")) + 2
            for future in [executor.submit(meet, str(tmp_path), name, count) for name in pair]:
                future.result()
    met = [line.split() for line in lines(tmp_path / "gpus")]
    assert [sorted(name for name, _ in met[i : i + 2]) for i in (0, 2)] == [["a", "b"], ["c", "d"]]
    assert [sorted(gpu for _, gpu in met[i : i + 2]) for i in (0, 2)] == [["3", "GPU-5"]] * 2


@pytest.mark.parametrize(
    ("visible", "count", "gpus"),
    [(None, 0, []), (None, 2, ["0", "1"]), ("4,GPU-a", 2, ["4", "GPU-a"]), ("1,-1,2", 1, ["1"]), ("", 0, [])],
)
def test_visible_gpus(monkeypatch, visible, count, gpus):
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert local.visible_gpus() == gpus


def test_what_a_process_says_on_stderr_is_passed_on(tmp_path, capsys):
    import warnings

    with create_executor(jobs=1) as executor:
        executor.submit(warnings.warn, "mind the gap").result()
    assert "UserWarning: mind the gap" in capsys.readouterr().err


PARENT = """
import sys
from loope.lab.executors import create_executor
from tests.lab.engine.submitted import lines, save_when_asked, until

folder, kind = sys.argv[1:]
try:
    with create_executor(jobs=2) as executor:
        for name in "abc":
            last = executor.submit(save_when_asked, folder, name, kind == "stubborn")
        until(lambda: len(lines(folder + "/started")) == 2)
        if kind != "leaving":
            last.result()
except KeyboardInterrupt:
    print("interrupted", last.cancelled())
"""


@pytest.fixture
def parent(tmp_path):
    """Starts a program with two processes under way and a third waiting; returns it when they have begun."""
    started = []

    def start(kind):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        command = [sys.executable, "-c", PARENT, str(tmp_path), kind]
        program = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path
        )
        started.append(program)
        until(lambda: len(lines(tmp_path / "started")) == 2)
        return program

    yield start
    for program in started:
        program.kill()
        program.wait()
        program.stdout.close()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("kind", ["gentle", "leaving"])
def test_ctrl_c_lets_processes_save(parent, tmp_path, kind):
    program = parent(kind)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to the whole group of the program
    assert program.communicate(timeout=300)[0] == "interrupted True\n"
    # Each has seen one signal, and the third never began.
    assert sorted(lines(tmp_path / "saved")) == [f"{name} [{signal.SIGINT:d}]" for name in "ab"]
    assert sorted(line.split()[0] for line in lines(tmp_path / "started")) == ["a", "b"]


def test_a_second_ctrl_c_kills(parent, tmp_path):
    program = parent("stubborn")
    pids = [int(line.split()[1]) for line in lines(tmp_path / "started")]
    os.killpg(program.pid, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(timeout=1)  # it waits for them
    assert all(alive(pid) for pid in pids)
    os.killpg(program.pid, signal.SIGINT)
    assert program.communicate(timeout=300)[0] == "interrupted True\n"
    assert not any(alive(pid) for pid in pids)
    assert not (tmp_path / "saved").exists()


def test_processes_save_when_their_parent_is_killed(parent, tmp_path):
    program = parent("gentle")
    program.kill()
    until(lambda: len(lines(tmp_path / "saved")) == 2)
    assert sorted(lines(tmp_path / "saved")) == [f"{name} [{signal.SIGTERM:d}]" for name in "ab"]


def test_nothing_begins_after_a_stop(tmp_path):
    with create_executor(jobs=1) as executor:
        executor._stop(kill=False)
        future = executor.submit(work, str(tmp_path), "late")
        assert "stopped before it began" in str(future.exception())
    assert not (tmp_path / "started").exists()


def test_mistakes(monkeypatch):
    with pytest.raises(LoopeError, match="Unknown executor 'rai'; use one of: ray, "):
        create_executor("rai")
    with pytest.raises(LoopeError, match="executor 'local' takes no options, got 'partition'"):
        create_executor("local", partition="gpu")
    with pytest.raises(LoopeError, match="Unknown option of the executor 'slurm': 'mem'; use one of: mem_gb"):
        create_executor("slurm", mem=3)
    with pytest.raises(LoopeError, match="`jobs` must be at least 1, got 0"):
        create_executor("local", jobs=0)
    for extra, module in (("ray", "ray"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(LoopeError, match=rf"pip install 'loope\[{extra}\]'"):
            create_executor(extra)


def test_only_what_can_be_imported_is_submitted(monkeypatch):
    def inner(): ...

    with create_executor(jobs=1) as executor:
        for function in (inner, lambda: None, executor.submit, 3):
            with pytest.raises(LoopeError, match=r"cannot import .*; submit a function at the top level"):
                executor.submit(function)
        # A script's own functions are in another place there, where `__main__` is another program.
        monkeypatch.setattr(save_when_asked, "__module__", "__main__")
        monkeypatch.setattr(sys.modules["__main__"], "save_when_asked", save_when_asked, raising=False)
        with pytest.raises(LoopeError, match="cannot import 'save_when_asked'"):
            executor.submit(save_when_asked)
