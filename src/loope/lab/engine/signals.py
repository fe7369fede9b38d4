"""Ctrl-C and SIGTERM: the step is finished, the state saved, and the run can go on later."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from loope.core.errors import LoopeError

PATIENCE = 2.0  # seconds; a launcher such as torchrun hands the same Ctrl-C on, so a process may see it twice at once


class Interrupted(LoopeError):  # noqa: N818  (the run is not wrong)
    """Training was stopped by Ctrl-C or SIGTERM, its state is saved, and the same command goes on from there."""


class Interrupts:
    """While open, the first Ctrl-C or SIGTERM is noted in `asked`; another Ctrl-C, later, stops at once.

    Signals reach the main thread only: in another one nothing is changed, and `asked` stays False.
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
