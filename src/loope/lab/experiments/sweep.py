"""Execute the unfinished runs of a table, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path

from loope.core.processes import world_size
from loope.lab.executors import Executor
from loope.lab.experiments.results import Status, statuses
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run

LOOK_EVERY = 1.0  # seconds between calls of `watch`


@dataclass(frozen=True)
class Outcome:
    """Outcome of a sweep.

    Attributes:
        statuses: status of each run.
        failures: error messages by run name.
        elsewhere: names of runs that another process is training.
    """

    statuses: list[Status]
    failures: dict[str, str]
    elsewhere: list[str]


def run_sweep(
    runs: Sequence[Run],
    out: Path,
    executor: Executor,
    settings: Settings,
    watch: Callable[[list[Run]], None] = lambda left: None,
) -> Outcome:
    """Execute unfinished runs. A failed run does not stop the others and is retried by the next call.

    Runs that another process is training are skipped.

    Args:
        runs: runs of one or more tables; duplicates are executed once.
        out: the folder of all runs.
        executor: executes the runs.
        settings: settings of the machine.
        watch: called regularly with the unfinished runs.
    """
    # Here, not above: it needs the packages of [train], and commands check for those after importing this module.
    from loope.lab.experiments.runner import execute

    out.mkdir(parents=True, exist_ok=True)
    # Processes that share each run must choose the same runs: a late one would see its peers "running".
    skipped = ("done",) if world_size() > 1 else ("done", "running")
    waiting = [each.run for each in statuses(runs, out) if each.state not in skipped]
    futures: dict[Future[None], Run] = {}
    for run in waiting:
        futures[executor.submit(execute, run.to_json(), str(out.resolve()), settings)] = run
    left = set(futures)
    while left:
        watch([run for future, run in futures.items() if future in left])
        left = wait(left, timeout=LOOK_EVERY).not_done
    failures = {}
    for future, run in futures.items():
        error = future.exception()
        if error is not None:
            failures[run.name] = str(error)
    after = statuses(runs, out)
    failures |= {each.run.name: each.error for each in after if each.error is not None}
    over = {each.run.name for each in after if each.state == "done"} | failures.keys()
    return Outcome(after, failures, [each.run.name for each in after if each.run.name not in over])
