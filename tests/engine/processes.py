"""Real processes that train, to be stopped at a chosen place and killed there."""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import asdict
from pathlib import Path

import torch

from loope.engine import checkpoint, train
from tests.engine.runs import Cells, recipe, sources, task, vit

# Each process is forked from one that has imported all this and done nothing else: it starts at once, and clean.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def _waits(function, number: int, half, pipe):
    """In place of a function of the engine: at its nth call it half does what it should, and waits to be killed."""
    calls = itertools.count(1)

    def stand_in(*args, **options):
        if next(calls) == number:
            half(*args)
            pipe.send("here")
            time.sleep(3600)
        return function(*args, **options)

    return stand_in


def _half_a_file(path: Path, data: bytes) -> None:
    path.write_bytes(data[: len(data) // 2])


def _half_a_folder(path: Path) -> None:
    next(path.iterdir()).unlink()


PLACES = {  # where a process can be killed: the module, its function, and what is done of it
    "batch": (Cells, "draw", lambda *_: None),
    "write": (checkpoint, "_write", _half_a_file),
    "rename": (os, "replace", lambda *_: None),
    "renamed": (checkpoint, "_sync_folder", lambda *_: None),  # second call of each write: after the rename
    "remove": (shutil, "rmtree", _half_a_folder),
}


def _child(pipe, folder: str, options: dict, place: str | None, number: int) -> None:
    torch.set_num_threads(1)
    if place is not None:
        home, name, half = PLACES[place]
        setattr(home, name, _waits(getattr(home, name), number, half, pipe))
    drawn, draw = itertools.count(), Cells.draw
    Cells.draw = lambda source, chosen: (next(drawn), draw(source, chosen))[1]
    settings = {"checkpoint_steps": 2, "checkpoint_seconds": 3600.0, "trackers": (), "progress": False}
    result = train(vit(), task(), *sources(), recipe(**options), folder, **settings)
    pipe.send(json.dumps({**asdict(result), "drawn": next(drawn)}, default=str))


def run(folder: Path, place: str | None = None, number: int = 0, **options) -> dict | None:
    """Train into `folder`: to the end, or until the nth time at `place`, where the process is killed.

    Returns:
        The result, and how many batches this process has `drawn`; None if it was killed.
    """
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_child, args=(theirs, str(folder), options, place, number))
    process.start()
    theirs.close()
    answer = ours.recv()  # EOFError if the process died by itself
    if answer == "here":
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == (-signal.SIGKILL if answer == "here" else 0)
    return None if answer == "here" else json.loads(answer)
