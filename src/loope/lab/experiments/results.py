"""Read the status and results of runs. Does not import torch, for `loope status`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loope.lab.engine.lock import is_locked
from loope.lab.experiments.spec import Run

if TYPE_CHECKING:
    from pandas import DataFrame

    from loope.lab.experiments.statistics import Mean
    from loope.lab.experiments.table import Entry, Table

SPEC, RESULT, FAILED, PROGRESS = "spec.json", "run.json", "failed.json", "progress.json"
MODEL, PICTURES = "model.safetensors", "pictures.safetensors"
STATES = ("done", "running", "failed", "begun", "waiting")


@dataclass(frozen=True)
class Status:
    """Status of a run.

    Args:
        run: the run.
        state: one of `STATES`: "running" if a process holds its lock, "begun" if it was started and stopped.
        result: contents of its result file, if done.
        error: error message, if failed.
    """

    run: Run
    state: str
    result: dict[str, Any] | None = None
    error: str | None = None


def folder_of(run: Run, out: Path) -> Path:
    """Return the folder of a run below the folder of all runs."""
    return out / run.name


def status_of(run: Run, out: Path) -> Status:
    """Return the status of a run."""
    folder = folder_of(run, out)
    result = read_result(folder)
    if result is not None:
        return Status(run, "done", result)
    if is_locked(folder):
        return Status(run, "running")
    failure = _read(folder / FAILED)
    if failure is not None:
        return Status(run, "failed", error=str(failure.get("error", "unknown")))
    return Status(run, "begun" if (folder / SPEC).exists() else "waiting")


def statuses(runs: Iterable[Run], out: Path) -> list[Status]:
    """Return the status of each distinct run, in order."""
    unique = {run.key: run for run in runs}
    return [status_of(run, out) for run in unique.values()]


def read_result(folder: Path) -> dict[str, Any] | None:
    """Return the result of a run, or None if it is not done."""
    found = _read(folder / RESULT)
    return found if found is not None and isinstance(found.get("metrics"), dict) else None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):  # missing or damaged
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class Results:
    """Results of finished runs, the single access point for tables, figures and studies.

    Args:
        result: returns the contents of a run's `run.json`, or None if it is not done.
        tensors: returns the tensors kept for a run's figures, or None.
    """

    result: Callable[[Run], dict[str, Any] | None]
    tensors: Callable[[Run], dict[str, Any] | None]

    @classmethod
    def in_folder(cls, out: Path) -> Results:
        """Read results from a folder of runs, as written by `loope run`."""

        def tensors(run: Run) -> dict[str, Any] | None:
            from safetensors.torch import load_file

            file = folder_of(run, out) / PICTURES
            return dict(load_file(file)) if file.exists() else None

        return cls(lambda run: read_result(folder_of(run, out)), tensors)

    def of_entry(self, entry: Entry, seeds: Sequence[int]) -> list[dict[str, Any]]:
        """Return the results of an entry's seeds that are done."""
        found = (self.result(entry.run.with_seed(seed)) for seed in seeds)
        return [result for result in found if result is not None]

    def frame(self, table: Table, preset: str, seeds: Sequence[int]) -> DataFrame:
        """Return one line for each cell and seed that is done: `row`, `column`, `seed`, `value` as measured."""
        import pandas as pd

        lines = [
            (entry.row, column, seed, math.nan if (value := result["metrics"][metric]) is None else value)
            for entry in table.entries(preset)
            for seed in seeds
            if (result := self.result(entry.run.with_seed(seed)))
            for column, metric in entry.cells.items()
            if metric in result["metrics"]
        ]
        return pd.DataFrame(lines, columns=["row", "column", "seed", "value"])

    def means(self, table: Table, preset: str, seeds: Sequence[int]) -> dict[str, dict[str, Mean]]:
        """Return row -> column -> our mean, where at least one seed is done."""
        from loope.lab.experiments.statistics import over_seeds

        found: dict[str, dict[str, Mean]] = {}
        for (row, column), values in self.frame(table, preset, seeds).groupby(["row", "column"], sort=False)["value"]:
            found.setdefault(row, {})[column] = over_seeds(values.tolist())
        return found
