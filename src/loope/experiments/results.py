"""What runs have left in their folders: read without torch, by tables, reports and `loope status`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loope.engine.lock import is_locked
from loope.experiments.spec import Run

SPEC, RESULT, FAILED, PROGRESS = "spec.json", "run.json", "failed.json", "progress.json"
MODEL = "model.safetensors"
STATES = ("done", "running", "failed", "begun", "waiting")


@dataclass(frozen=True)
class Standing:
    """How far a run is.

    Args:
        run: the run.
        state: one of `STATES`: "running" if a process holds its folder, "begun" if one did and stopped.
        result: what is in its result file, if it is done.
        error: why it failed, if it did.
    """

    run: Run
    state: str
    result: dict[str, Any] | None = None
    error: str | None = None


def folder_of(run: Run, out: Path) -> Path:
    """The folder of a run below the folder of all runs."""
    return out / run.name


def standing(run: Run, out: Path) -> Standing:
    """How far a run is."""
    folder = folder_of(run, out)
    result = read_result(folder)
    if result is not None:
        return Standing(run, "done", result)
    if is_locked(folder):
        return Standing(run, "running")
    failure = _read(folder / FAILED)
    if failure is not None:
        return Standing(run, "failed", error=str(failure.get("error", "unknown")))
    return Standing(run, "begun" if (folder / SPEC).exists() else "waiting")


def standings(runs: Iterable[Run], out: Path) -> list[Standing]:
    """How far runs are, each once, in their order."""
    unique = {run.key: run for run in runs}
    return [standing(run, out) for run in unique.values()]


def read_result(folder: Path) -> dict[str, Any] | None:
    """What a run has left, or None if it is not done."""
    return _read(folder / RESULT)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None
