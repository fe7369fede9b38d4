"""Base classes of executors: calls are queued, and each runs in its own process."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from loope.core.errors import LoopeError, require

Function = Callable[..., None]

_ALL_AT_ONCE = 10_000  # maximum number of threads; they only wait, and start on demand
_LAST_LINES = 15


class RunError(LoopeError):
    """A submitted call failed; the message says how it ended and shows its last output."""


class Job(ABC):
    """A call running in another process."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for the call to return.

        Raises:
            RunError: if it raised an error or its process was lost.
        """

    @abstractmethod
    def stop(self, kill: bool) -> None:
        """Ask the call to save and stop, or kill it. It may have ended already."""


class Executor(ABC):
    """Run functions, as a context manager. Return values are discarded: results go through files."""

    @abstractmethod
    def submit(self, function: Function, *args: Any) -> Future[None]:
        """Schedule `function(*args)`; the future completes when it returns, or holds its error."""

    def __enter__(self) -> Executor:
        return self

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for or stop all calls."""


class ProcessExecutor(Executor):
    """Run functions in other processes, on this machine or others.

    Leaving the context cancels queued calls and waits for running ones. After an error or Ctrl-C, running calls are
    first asked to save and stop (by SIGINT or SIGTERM); another Ctrl-C kills them.

    Args:
        jobs: concurrent calls; by default all are submitted at once, to wait in the cluster's queue.
    """

    def __init__(self, jobs: int | None):
        require(jobs is None or jobs >= 1, f"`jobs` must be at least 1, got {jobs}; leave it out for the default.")
        self._threads = ThreadPoolExecutor(jobs or _ALL_AT_ONCE, "loope-job")  # each waits for one call
        self._lock = threading.Lock()
        self._under_way: set[Job] = set()
        self._stopped = False

    def submit(self, function: Function, *args: Any) -> Future[None]:
        """Call `function(*args)` in another process.

        Args:
            function: at the top level of a module that the other process can import.
            args: plain data. Paths should be absolute.

        Returns:
            A future that fails with `RunError` if the call fails.
        """
        name, module = getattr(function, "__qualname__", repr(function)), getattr(function, "__module__", None)
        require(
            module != "__main__" and getattr(sys.modules.get(module or ""), name, None) is function,
            f"Another process cannot import {name!r}; submit a function at the top level of a module.",
        )
        return self._threads.submit(self._run, function, args)

    @abstractmethod
    def _launch(self, function: Function, args: tuple[Any, ...]) -> Job:
        """Start the process of a call. Called by one thread at a time."""

    def _close(self) -> None:
        """Release resources of the executor."""

    def _run(self, function: Function, args: tuple[Any, ...]) -> None:
        with self._lock:
            if self._stopped:
                raise RunError("The run was stopped before it began.")
            job = self._launch(function, args)
            self._under_way.add(job)
        try:
            job.wait()
        finally:
            with self._lock:
                self._under_way.remove(job)

    def _stop(self, kill: bool) -> None:
        with self._lock:
            self._stopped = True
            for job in self._under_way:
                job.stop(kill)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        stop, kill, ctrl_c = error is not None, False, None
        while True:
            try:
                if stop:
                    self._stop(kill)
                self._threads.shutdown(wait=True, cancel_futures=True)
                break
            except KeyboardInterrupt as interrupt:
                stop, kill, ctrl_c = True, stop, interrupt
        self._close()
        if error is None and ctrl_c is not None:
            raise ctrl_c


def import_path() -> str:
    """Return the PYTHONPATH with which another process can import the same modules."""
    own = tuple(os.path.join(sysconfig.get_path(kind), "") for kind in ("stdlib", "purelib", "platlib"))
    folders = [os.path.abspath(folder) for folder in sys.path]  # "" is the current folder
    return os.pathsep.join(folder for folder in folders if not os.path.join(folder, "").startswith(own))


def last_lines(text: str) -> str:
    """Return the last lines of the output of a process."""
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
