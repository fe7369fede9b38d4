"""What executors share: calls wait in line, each runs in a process of its own, a future tells how it ended."""

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

_ALL_AT_ONCE = 10_000  # threads at most; they only wait, and are made when needed
_LAST_LINES = 15


class RunError(LoopeError):
    """A submitted call did not come to its end; the message says how it ended and what it said last."""


class Job(ABC):
    """A call under way in another process."""

    @abstractmethod
    def wait(self) -> None:
        """Return when the call has.

        Raises:
            RunError: if it raised an error, or its process was lost.
        """

    @abstractmethod
    def stop(self, kill: bool) -> None:
        """Ask it to save and end, or end it at once; it may have ended by itself."""


class Executor(ABC):
    """Runs functions, a context. Results travel through files: nothing comes back."""

    @abstractmethod
    def submit(self, function: Function, *args: Any) -> Future[None]:
        """Have `function(*args)` called; the future tells when it has returned, or holds the error."""

    def __enter__(self) -> Executor:
        return self

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave nothing under way."""


class ProcessExecutor(Executor):
    """Runs functions in other processes, here or elsewhere.

    Leaving the context cancels what is waiting and waits for what is under way. After an error or Ctrl-C, what is under
    way is first asked to save and end (the process sees SIGINT or SIGTERM); another Ctrl-C kills it.

    Args:
        jobs: calls at a time; by default everything is handed on at once, to wait in the queue of the cluster.
    """

    def __init__(self, jobs: int | None):
        require(jobs is None or jobs >= 1, f"`jobs` must be at least 1, got {jobs}; leave it out for the default.")
        self._threads = ThreadPoolExecutor(jobs or _ALL_AT_ONCE, "loope-job")  # each waits for one call
        self._lock = threading.Lock()
        self._under_way: set[Job] = set()
        self._stopped = False

    def submit(self, function: Function, *args: Any) -> Future[None]:
        """Call `function(*args)` in another process, when it is its turn.

        Args:
            function: of a module that the other process can import.
            args: plain data. Paths among them are absolute, or mean something else on another machine.

        Returns:
            a future that fails with `RunError` if the call does.
        """
        name, module = getattr(function, "__qualname__", repr(function)), getattr(function, "__module__", None)
        require(
            module != "__main__" and getattr(sys.modules.get(module or ""), name, None) is function,
            f"Another process cannot import {name!r}; submit a function at the top level of a module.",
        )
        return self._threads.submit(self._run, function, args)

    @abstractmethod
    def _launch(self, function: Function, args: tuple[Any, ...]) -> Job:
        """Hand a call to its process. One launch at a time."""

    def _close(self) -> None:
        """Give back what the executor holds; most hold nothing."""

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
    """What another process of the same Python needs in PYTHONPATH to import what this one can."""
    own = tuple(os.path.join(sysconfig.get_path(kind), "") for kind in ("stdlib", "purelib", "platlib"))
    folders = [os.path.abspath(folder) for folder in sys.path]  # "" stands for the current one
    return os.pathsep.join(folder for folder in folders if not os.path.join(folder, "").startswith(own))


def last_lines(text: str) -> str:
    """The end of what a process said, where errors are."""
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
