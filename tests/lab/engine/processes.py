"""Processes that train, alone or together, and can be stopped and killed at a chosen place."""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import socket
from dataclasses import asdict
from pathlib import Path

import torch

from loope import LoopeError
from loope.lab.engine import checkpoint
from loope.lab.engine.signals import Interrupted
from loope.lab.engine.training import train
from tests.lab.engine import runs

# Each process is forked from one that has only imported this module: it starts quickly and in a clean state.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])
SETTINGS = {"checkpoint_steps": 2, "checkpoint_seconds": 3600.0, "trackers": (), "progress": False}


def _half_a_file(path: Path, data: bytes) -> None:
    path.write_bytes(data[: len(data) // 2])


def _half_a_folder(path: Path) -> None:
    next(path.iterdir()).unlink()


PLACES = {  # where a process can be stopped: a function of the engine, and the part of its work done before
    "batch": (runs.Cells, "draw", lambda *_: None),
    "write": (checkpoint, "write_new", _half_a_file),
    "rename": (os, "replace", lambda *_: None),
    "renamed": (checkpoint, "sync_folder", lambda *_: None),  # its second call in each write is after the rename
    "remove": (shutil, "rmtree", _half_a_folder),
}


def _waits(function, number: int, half, pipe):
    """Wrap a function: its nth call does half of the work, then waits for `Trainer.resume`."""
    calls = itertools.count(1)

    def stand_in(*args, **options):
        if next(calls) == number:
            half(*args)
            pipe.send("here")
            pipe.recv()
        return function(*args, **options)

    return stand_in


def _child(pipe, environment: dict, folder: str, model: str, options: dict, place: str | None, number: int) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    if place is not None:
        home, name, half = PLACES[place]
        setattr(home, name, _waits(getattr(home, name), number, half, pipe))
    drawn, draw = itertools.count(), runs.Cells.draw
    runs.Cells.draw = lambda source, chosen: (next(drawn), draw(source, chosen))[1]
    try:
        arguments = getattr(runs, model)(), runs.task(), *runs.sources(), runs.recipe(**options)
        result = train(*arguments, folder, **SETTINGS)
        pipe.send(json.dumps({**asdict(result), "drawn": next(drawn)}, default=str))
    except (LoopeError, Interrupted) as error:
        pipe.send(json.dumps({"error": str(error), "kind": type(error).__name__}))


class Trainer:
    """Processes that train `runs.<model>()` into one folder, and wait when they reach `place` for the nth time."""

    def __init__(self, folder: Path, place=None, number=0, *, model="vit", processes=1, **options):
        self.pipes, self.processes = [], []
        for environment in _environments(processes):
            ours, theirs = CONTEXT.Pipe()
            arguments = (theirs, environment, str(folder), model, options, place, number)
            process = CONTEXT.Process(target=_child, args=arguments)
            process.start()
            theirs.close()  # so that the death of a process raises EOFError here instead of blocking
            self.pipes.append(ours)
            self.processes.append(process)

    def wait(self) -> list:
        """Return the next message of each process: "here", or finally its result with the number of batches `drawn`."""
        answers = [pipe.recv() for pipe in self.pipes]
        return [answer if answer == "here" else json.loads(answer) for answer in answers]

    def resume(self) -> None:
        """Resume the waiting processes."""
        for pipe in self.pipes:
            pipe.send("resume")

    def kill(self) -> None:
        """Kill all processes with SIGKILL."""
        for process in self.processes:
            os.kill(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.join()


def _environments(processes: int) -> list[dict[str, str]]:
    """Return the environment variables that torchrun sets."""
    if processes == 1:
        return [{}]
    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def run(folder: Path, **options) -> dict:
    """Train to the end; return the result of the first process."""
    trainer = Trainer(folder, **options)
    results = trainer.wait()
    for process in trainer.processes:
        process.join()
        assert process.exitcode == 0
    return results[0]


def kill(folder: Path, place: str, number: int, **options) -> None:
    """Train until `place` is reached for the nth time, then kill."""
    trainer = Trainer(folder, place, number, **options)
    assert set(trainer.wait()) == {"here"}
    trainer.kill()
