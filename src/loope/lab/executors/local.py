"""Runs on this machine: a process for each call, so that one that crashes or is killed takes nobody with it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any

from loope.lab.executors.base import Function, Job, ProcessExecutor, RunError, import_path, last_lines


class LocalExecutor(ProcessExecutor):
    """Processes of this machine, each with its share of the cores and, where there are GPUs, one of them.

    What a process prints goes where this one prints; what it says on stderr is passed on when it ends.

    Args:
        jobs: processes at a time; by default one for each GPU, or for each core where there is none.
    """

    def __init__(self, jobs: int | None = None):
        gpus, cores = visible_gpus(), usable_cores()
        jobs = jobs if jobs is not None else len(gpus) or cores
        super().__init__(jobs)
        # Torch reads it when it is loaded, and MKL and OpenBLAS follow it; what the user has set stays.
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores // jobs))
        self._environment = os.environ | {"OMP_NUM_THREADS": threads, "PYTHONPATH": import_path()}
        self._gpus = [gpus[slot % len(gpus)] if gpus else None for slot in range(jobs)]

    def _launch(self, function: Function, args: tuple[Any, ...]) -> Job:
        taken = {job.slot for job in self._under_way if isinstance(job, _Process)}
        slot = next(slot for slot in range(len(self._gpus)) if slot not in taken)
        gpu = self._gpus[slot]
        environment = self._environment if gpu is None else {**self._environment, "CUDA_VISIBLE_DEVICES": gpu}
        try:
            return _Process(pickle.dumps((function, args)), environment, slot)
        except OSError as error:
            raise RunError(f"No process could be started: {error}; try fewer `jobs`.") from error


class _Process(Job):
    """One call. Its stdin brings the call and stays open: the process knows that its parent died when it closes."""

    def __init__(self, call: bytes, environment: dict[str, str], slot: int):
        self._call, self.slot = call, slot
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `wait`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loope.lab.executors.worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C in the terminal reaches the parent alone, which hands it on once
        )

    def wait(self) -> None:
        assert self._process.stdin is not None  # noqa: S101 (for mypy)
        with suppress(BrokenPipeError):  # it has ended already; its exit code says more
            self._process.stdin.write(self._call)
            self._process.stdin.flush()
        code = self._process.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with self._said:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace")
        if code:
            raise RunError(f"The process {how_it_ended(code)}.\n{last_lines(said)}".rstrip())
        sys.stderr.write(said)

    def stop(self, kill: bool) -> None:
        if not kill:
            self._process.send_signal(signal.SIGINT)
        elif self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with the data loaders it started


def how_it_ended(code: int) -> str:
    """An exit code in words.

    Examples:
        >>> how_it_ended(-9)
        'was ended by signal 9 (Killed): kill -9, or too little memory'
    """
    if code >= 0:
        return f"ended with exit code {code}"
    hint = ": kill -9, or too little memory" if -code == signal.SIGKILL else ""
    return f"was ended by signal {-code} ({signal.strsignal(-code)}){hint}"


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """CUDA's names of the GPUs this process may use."""
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(str(number) for number in range(count))
    return named.split(",")[:count]
