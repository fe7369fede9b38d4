"""Run calls in this process, one after the other: for small runs and for processes that share a run."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Any

from loope.core.errors import require
from loope.lab.engine.signals import Interrupted
from loope.lab.executors.base import Executor, Function


class SerialExecutor(Executor):
    """Call functions immediately, in this process. Ctrl-C ends the current call and skips the rest.

    Args:
        jobs: None or 1.
    """

    def __init__(self, jobs: int | None = None):
        require(jobs in (None, 1), f"In this process runs go one after the other, got jobs={jobs}; use on='local'.")

    def submit(self, function: Function, *args: Any) -> Future[None]:
        """Call `function(*args)` now; the returned future is done or holds the error.

        Raises:
            KeyboardInterrupt: if training was stopped by Ctrl-C or SIGTERM, after saving.
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
        pass  # all calls have returned
