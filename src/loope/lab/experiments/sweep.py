"""Do the runs of a table that are not done yet, on one machine or many."""

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

LOOK_EVERY = 1.0  # seconds between looks at how far runs are


@dataclass(frozen=True)
class Outcome:
    """What became of a sweep.

    Attributes:
        statuses: how far each run is.
        failures: why some failed, by the run's name.
        elsewhere: the names of runs that were left to another process, which was training them.
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
    """Do what is not done. A run that fails does not stop the others; it is tried again by the next call.

    A run that another process is training is left to it.

    Args:
        runs: of one or more tables; a run that is named twice is done once.
        out: the folder of all runs.
        executor: where they run.
        settings: what they need to know of the machine.
        watch: called now and then with the runs that are not finished yet.
    """
    # Here, not above: it needs the packages of [train], and commands check for those after importing this module.
    from loope.lab.experiments.runner import execute

    out.mkdir(parents=True, exist_ok=True)
    # Processes that share each run must agree on which: one that comes late would see its peers "running".
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
