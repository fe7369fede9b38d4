"""Functions that tests of executors submit; other processes import them from here."""

import fcntl
import json
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path


def until(condition, seconds=300):
    """Wait for another process; the generous limit only ends broken tests."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def note(path, text):
    """Append a line atomically."""
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


def lines(path):
    return Path(path).read_text().splitlines() if Path(path).exists() else []


@contextmanager
def holding(path):
    """Take the engine's lock, which is released when the process ends; raise if it is taken."""
    with Path(path).open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def seated(folder, seats):
    """Take one of `seats` slots; raise if none is free."""
    for seat in range(seats):
        try:
            with holding(Path(folder) / f"seat-{seat}"):
                yield
                return
        except BlockingIOError:
            continue
    raise RuntimeError("more processes than seats")


def work(folder, name, seats=1, then="end"):
    """Take a slot, write a note, wait for the file `go`, and end as `then` says."""
    with seated(folder, seats):
        note(Path(folder) / "started", name)
        until((Path(folder) / "go").exists)
        if then == "raise":
            raise ValueError(f"{name} knows no such order")
        if then == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        note(Path(folder) / "ended", name)


def write_threads(path, load_torch):
    """Write the environment's number of threads and devices, and torch's number of threads."""
    found = [os.environ["OMP_NUM_THREADS"], os.environ.get("CUDA_VISIBLE_DEVICES")]
    if load_torch:
        import torch

        found.append(torch.get_num_threads())
    Path(path).write_text(json.dumps(found))


def meet(folder, name, count):
    """Write the GPU of this process and wait until `count` processes have done so."""
    note(Path(folder) / "gpus", f"{name} {os.environ['CUDA_VISIBLE_DEVICES']}")
    until(lambda: len(lines(Path(folder) / "gpus")) >= count)


def save_when_asked(folder, name, stubborn=False):
    """Behave as the engine: at the first signal finish the step and save. A stubborn process keeps running."""
    asked = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: asked.append(number))
    note(Path(folder) / "started", f"{name} {os.getpid()}")
    until(lambda: asked and not stubborn)
    note(Path(folder) / "saved", f"{name} {asked}")
    raise RuntimeError("interrupted")


def train(folder, steps, hang_at=None, fail_at=None):
    """Run under a lock with a checkpoint for each step, resuming from the last one; hang at a step once."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    with holding(folder / "lock"):
        done = len(lines(folder / "checkpoints"))
        note(folder / "began", f"{done} {os.getpid()} {os.environ.get('OMP_NUM_THREADS')}")
        for step in range(done, steps):
            if step == fail_at:
                raise ValueError(f"loss is not finite at step {step}")
            if step == hang_at and len(lines(folder / "began")) == 1:
                note(folder / "hangs", os.getpid())
                until(lambda: False)
            note(folder / "checkpoints", step)
        note(folder / "complete", os.getpid())


def train_until_stopped(folder, steps):
    """Train as `train` does; the cluster's time limit is reached halfway, signalled by SIGUSR2."""
    folder = Path(folder)
    done = len(lines(folder / "checkpoints"))
    note(folder / "began", done)
    for step in range(done, steps):
        note(folder / "checkpoints", step)
        if step == steps // 2 and done == 0:
            os.kill(os.getpid(), signal.SIGUSR2)
            until(lambda: False)
    note(folder / "complete", "")


def train_until_asked(folder, steps):
    """Train with the engine's own signal handling: SIGTERM ends the step, saves, and raises `Interrupted`."""
    from loope.lab.engine.signals import Interrupted, Interrupts

    folder = Path(folder)
    done = len(lines(folder / "checkpoints"))
    note(folder / "began", f"{done} {os.getpid()}")
    with Interrupts() as interrupts:
        for step in range(done, steps):
            if step == 2 and done == 0:
                until(lambda: interrupts.asked)
            note(folder / "checkpoints", step)
            if interrupts.asked:
                note(folder / "saved", step)
                raise Interrupted("stopped and saved")
    note(folder / "complete", os.getpid())
