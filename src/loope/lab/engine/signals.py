"""Handle Ctrl-C and SIGTERM: finish the step, save, and stop."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

PATIENCE = 2.0  # seconds; launchers such as torchrun forward Ctrl-C, so a process may receive it twice


class Interrupted(RuntimeError):  # noqa: N818  (the run is not wrong)
    """Training was stopped by Ctrl-C or SIGTERM and saved; the same command resumes it."""


class Interrupts:
    """Record the first Ctrl-C or SIGTERM in `asked`; a later second Ctrl-C stops at once.

    Signals reach only the main thread: in other threads nothing is installed and `asked` stays False.
    """

    def __init__(self) -> None:
        self.asked = False
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.asked and number == signal.SIGINT and now - self._since > PATIENCE:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self._since = True, now
