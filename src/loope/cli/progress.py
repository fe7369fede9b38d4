"""Progress bars for runs in other processes, which report their progress in files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from loope.cli.text import as_text
from loope.lab.engine.progress import Display, read_progress
from loope.lab.experiments.results import PROGRESS, folder_of

if TYPE_CHECKING:
    from loope.lab.engine.state import State
    from loope.lab.experiments.spec import Run

LINE_EVERY = 30.0  # seconds between plain lines without a terminal


@contextmanager
def interruptible(console: Console) -> Iterator[None]:
    """Turn Ctrl-C into a message and exit code 130. Runs have saved their state by then."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("Interrupted and saved. Rerun the same command to resume.")
        raise typer.Exit(130) from None


class RunProgress:
    """Show the overall progress and that of each active run; call it with the unfinished runs.

    Args:
        console: where to print.
        runs: all runs.
        out: the folder of experiments; its runs are in `runs`.
    """

    def __init__(self, console: Console, runs: list[Run], out: Path):

        self._console = console
        self._out = out / "runs"
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[message]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._total = len({run.key for run in runs})
        self._all = self._bars.add_task("runs", total=self._total, message="")
        self._each: dict[str, TaskID] = {}
        self._last = 0.0

    def __enter__(self) -> RunProgress:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def __call__(self, left: list[Run]) -> None:
        """Update the bars from the unfinished runs."""
        self._bars.update(self._all, completed=self._total - len(left))
        progress = {run: read_progress(folder_of(run, self._out) / PROGRESS) for run in left}
        active = {run.name: place for run, place in progress.items() if place is not None}
        for name in [name for name in self._each if name not in active]:
            self._bars.remove_task(self._each.pop(name))
        for name, place in active.items():
            if name not in self._each:
                self._each[name] = self._bars.add_task(_short(name), total=place.total, message="")
            self._bars.update(self._each[name], completed=place.done, message=as_text(place.shown))
        if not self._console.is_terminal and time.monotonic() - self._last > LINE_EVERY:
            self._last = time.monotonic()
            self._console.print(f"{self._total - len(left)} of {self._total} runs done", highlight=False)
            for name, place in active.items():
                self._console.print(
                    f"  {_short(name)}  {place.done}/{place.total}  {as_text(place.shown)}", highlight=False
                )


class TrainingBar(Display):
    """Show the steps of a run in this process as a bar on stderr."""

    _bar: Progress | None = None

    def show(self, state: State) -> None:
        """Update the bar."""
        if self._bar is None:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=self.epochs * self.steps)
            self._bar.start()
        self._bar.update(
            self._bar.task_ids[0],
            completed=self.done(state),
            description=as_text(f"{self.scores(state)}  {self.left(state)}"),
        )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


def _short(name: str) -> str:
    """Return a run's name without its hash."""
    return as_text(name.rsplit("-", 1)[0])
