"""Runs in this very process, one after the other: for small ones, and for processes that share one big run."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Any

from loope.core.errors import require
from loope.lab.engine.signals import Interrupted
from loope.lab.executors.base import Executor, Function


class SerialExecutor(Executor):
    """Calls at once, without another process. Ctrl-C ends the call under way and those after it.

    Args:
        jobs: none or 1: there is one process.
    """

    def __init__(self, jobs: int | None = None):
        require(jobs in (None, 1), f"In this process runs go one after the other, got jobs={jobs}; use on='local'.")

    def submit(self, function: Function, *args: Any) -> Future[None]:
        """Call `function(*args)` now; the future is done, or holds the error.

        Raises:
            KeyboardInterrupt: if training was stopped by Ctrl-C or SIGTERM, and has saved.
        """
        done: Future[None] = Future()
        try:
            function(*args)
            done.set_result(None)
        except Interrupted as error:
            raise KeyboardInterrupt from error
        except Exception as error:
            done.set_exception(error)
        return done

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass  # what was submitted has been called
