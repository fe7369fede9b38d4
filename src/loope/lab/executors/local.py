"""Run calls on this machine, each in its own process, so that a crash does not affect the others."""

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
    """Run calls in local processes, each with its share of the cores and, if there are GPUs, one GPU.

    The processes share stdout; their stderr is printed when they end.

    Args:
        jobs: concurrent processes; by default one per GPU, or per core without GPUs.
    """

    def __init__(self, jobs: int | None = None):
        gpus, cores = visible_gpus(), usable_cores()
        jobs = jobs if jobs is not None else len(gpus) or cores
        super().__init__(jobs)
        # Read by torch, MKL and OpenBLAS at import; a value set by the user is kept.
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
    """A call in a process. It is sent through stdin, which stays open: when it closes, the parent has died."""

    def __init__(self, call: bytes, environment: dict[str, str], slot: int):
        self._call, self.slot = call, slot
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `wait`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loope.lab.executors.worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C in the terminal reaches only the parent, which forwards it once
        )

    def wait(self) -> None:
        assert self._process.stdin is not None  # noqa: S101 (for mypy)
        with suppress(BrokenPipeError):  # the process has ended; its exit code says why
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
                os.killpg(self._process.pid, signal.SIGKILL)  # including its data loaders


def how_it_ended(code: int) -> str:
    """Describe an exit code.

    Examples:
        >>> how_it_ended(-9)
        'was ended by signal 9 (Killed): kill -9, or too little memory'
    """
    if code >= 0:
        return f"ended with exit code {code}"
    hint = ": kill -9, or too little memory" if -code == signal.SIGKILL else ""
    return f"was ended by signal {-code} ({signal.strsignal(-code)}){hint}"


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """Return the CUDA names of the GPUs this process may use."""
    # Here, not above: each process imports this package, and not every call needs torch.
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(str(number) for number in range(count))
    return named.split(",")[:count]
