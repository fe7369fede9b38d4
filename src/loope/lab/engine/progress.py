"""Report the progress of a run: as lines on stderr, or in a file that another process watches."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loope.core.files import write_atomic

if TYPE_CHECKING:
    from loope.lab.engine.state import State

EVERY = 5.0  # seconds between plain lines
TOLD_EVERY = 1.0  # seconds between writes of the progress file


class Display:
    """Show nothing; base class of the displays.

    Args:
        name: name of the run.
        epochs: epochs of the run.
        steps: steps per epoch.
        images: images per step.
        headline: the metric to show.
        state: where the run starts or resumes.
    """

    def __init__(self, name: str, epochs: int, steps: int, images: int, headline: str, state: State):
        self.name = name
        self.epochs = epochs
        self.steps = steps
        self.images = images
        self.headline = headline
        self._before = self.done(state)
        self._began = time.perf_counter()

    def show(self, state: State) -> None:
        """Update after a step, or after an epoch and its evaluation."""

    def close(self) -> None:
        """Remove what is of no use after the run."""

    def done(self, state: State) -> int:
        """Return the total number of steps taken."""
        return state.epoch * self.steps + state.step

    def speed(self, state: State) -> float:
        """Return training images per second."""
        return self.done(state) * self.images / state.training if state.training else 0.0

    def scores(self, state: State) -> str:
        """Return the mean loss of the epoch, the last metric and images per second, as text."""
        last = state.history[-1] if state.history else {}
        shown = [f"loss {state.loss / state.step if state.step else last.get('loss', 0.0):.4f}"]
        if last:
            shown.append(f"{self.headline} {last['metrics'][self.headline]:.4f}")
        return "  ".join([*shown, f"{self.speed(state):,.0f} images/s"])

    def left(self, state: State) -> str:
        """Return the remaining time, estimated from this session, evaluations included."""
        done = self.done(state)
        rate = (time.perf_counter() - self._began) / max(1, done - self._before)
        return f"{timedelta(seconds=round(rate * (self.epochs * self.steps - done)))} left"


class Lines(Display):
    """Print lines on stderr."""

    _last = 0.0

    def show(self, state: State) -> None:
        """Print a line at the end of an epoch, or after `EVERY` seconds."""
        now = time.perf_counter()
        if state.step and now - self._last < EVERY:
            return
        self._last = now
        place = f"epoch {state.epoch + 1}/{self.epochs}  step {state.step}/{self.steps}"
        if not state.step:
            place = f"epoch {state.epoch}/{self.epochs} done"
        print(f"{self.name}  {place}  {self.scores(state)}  {self.left(state)}", file=sys.stderr, flush=True)


class Told(NamedTuple):
    """Progress of a run as read by another process: steps done, total steps, and scores as text."""

    done: int
    total: int
    shown: str


class ProgressFile(Display):
    """Write progress to a small file, for a process that watches several runs."""

    _last = 0.0

    def __init__(self, name: str, epochs: int, steps: int, images: int, headline: str, state: State, *, file: Path):
        super().__init__(name, epochs, steps, images, headline, state)
        self.file = file

    def show(self, state: State) -> None:
        """Write at the end of an epoch, or after `TOLD_EVERY` seconds."""
        now = time.perf_counter()
        if state.step and now - self._last < TOLD_EVERY:
            return
        self._last = now
        shown = Told(self.done(state), self.epochs * self.steps, f"{self.scores(state)}  {self.left(state)}")
        with suppress(OSError):  # a full disk must not stop the run
            write_atomic(self.file, json.dumps(shown._asdict()), durable=False)

    def close(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self.file.unlink()


def read_progress(file: Path) -> Told | None:
    """Read a file written by `ProgressFile`; None if there is none."""
    try:
        return Told(**json.loads(file.read_text()))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, TypeError):
        return None


def display_class(wanted: bool | Path | type[Display]) -> Callable[..., Display]:
    """Choose the display: a class itself, a file if a path is given, lines for True, nothing for False."""
    if isinstance(wanted, Path):
        return partial(ProgressFile, file=wanted)
    if isinstance(wanted, type):
        return wanted
    return Lines if wanted else Display
