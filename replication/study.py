"""The study of docs/results/study.md: every encoder with one recipe, extrapolation, static against refined, swaps.

    python -m replication.study                      # the plan: commands, runs done, minutes
    python -m replication.study collect [FOLDER]     # add finished runs (from out/experiments) and write the pages
    python -m replication.page                       # write the pages and the README's lines from what was collected

Each command of the plan runs what is unfinished of its part; rerun it to resume. `collect` keeps what it has.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Set
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from pandas import Series

from loope.core.files import write_atomic
from loope.lab.experiments.results import RESULT, Results
from loope.lab.experiments.spec import Run
from loope.lab.experiments.statistics import over_seeds
from loope.lab.experiments.table import Entry, Table, get_table
from loope.lab.experiments.tables.encoders import LARGE, ROWS
from replication.plan import Part
from replication.results import FOLDER, compact, expand, in_units, table

FILE, SWAP_FILE = FOLDER / "study.jsonl", FOLDER / "swap.jsonl"
# Encoders that a claim of replication/claims.py names, or that ours compare with.
CLAIMED = (
    *("No PE", "Learnable", "1D Sinusoid", "Static", "LOOPE", "CPE", "RPE", "LFF (Fourier)", "2D Sinusoid"),
    *("AS2DRoPE", "2D sin/cos", "RoPE mixed", "ALiBi 2D"),
)


def _only(*rows: str) -> tuple[str, ...]:
    return tuple(f"{row} |*" for row in rows)


PLAN = (
    Part("7x7: encoders that a claim names", "encoders", _only(*CLAIMED), 5),
    Part("7x7: the others", "encoders", _only(*(row for row in ROWS if row not in CLAIMED)), 3),
    Part("7x7: static against refined, five bases", "refined", (), 5),
    Part("14x14: six encoders", "encoders", _only(*(f"{row}, 14x14" for row in LARGE)), 3),
)
SWAP = (Part("Pets: encoders that start from what a model knows", "swap", (), 3),)


@cache
def planned() -> dict[str, Run]:
    """Return all runs on Three-Cell by key, each once; parts share the static rows."""
    return {run.key: run for part in PLAN for run in part.runs()}


def results() -> dict[str, dict[str, Any]]:
    """Return the collected results on Three-Cell by key."""
    return _read(FILE)


def swap_results() -> dict[str, dict[str, Any]]:
    """Return the collected results of fine-tuning after a swap by key."""
    return _read(SWAP_FILE)


def _read(file: Path) -> dict[str, dict[str, Any]]:
    lines = file.read_text().splitlines() if file.is_file() else []
    return {result["key"]: expand(result) for result in map(json.loads, lines)}


def by_seed(chosen: Table) -> Series[float]:
    """Return the study's numbers of a table by (row, column, seed), in the unit that it shows."""
    done = {**results(), **swap_results()}
    return in_units(chosen, Results(lambda run: done.get(run.key), lambda run: None))


def seeds_done(name: str) -> dict[str, tuple[int, int]]:
    """Return how many seeds of each row of a table are done, and how many are planned."""
    done = results().keys() | swap_results().keys()
    return {
        entry.row: (sum(entry.run.with_seed(seed).key in done for seed in range(part.seeds)), part.seeds)
        for part in (*PLAN, *SWAP)
        if part.table == name
        for entry in get_table(name).select("laptop", *part.only)
    }


def collect(folder: Path) -> int:
    """Add the planned runs that are finished below `folder` to the files; return how many they hold."""
    new = [json.loads(file.read_text()) for file in sorted((folder / "runs").glob(f"*/{RESULT}"))]
    swaps = {run.key for part in SWAP for run in part.runs()}
    return _add(FILE, new, planned().keys()) + _add(SWAP_FILE, new, swaps)


def _add(file: Path, new: list[dict[str, Any]], keys: Set[str]) -> int:
    kept = {key: compact(result) for key, result in _read(file).items()}
    kept |= {result["key"]: compact(result) for result in new if result["key"] in keys}
    ordered = sorted(kept.values(), key=lambda each: (each["run"]["encoder"]["name"], each["run"]["seed"], each["key"]))
    if ordered:
        write_atomic(file, "".join(json.dumps(each, separators=(",", ":"), sort_keys=True) + "\n" for each in ordered))
    return len(ordered)


def plan() -> str:
    """Return the parts with their runs, how many are done, and the minutes of those."""
    done, rows = {**results(), **swap_results()}, []
    for part in (*PLAN, *SWAP):
        runs = part.runs()
        minutes = [done[run.key]["processor_seconds"] / 60 for run in runs if run.key in done]
        rows.append((part.what, f"{len(runs)}", f"{len(minutes)}", f"{fmean(minutes):.1f}" if minutes else "-"))
    return table(("part", "runs", "done", "minutes of processor time a run"), rows)


def scores(name: str = "encoders") -> str:
    """Return a table's rows that have results: the mean of each column over seeds, in percent."""
    chosen, done = get_table(name), results()
    heads = [column.head for column in chosen.columns]
    rows = []
    for entry in chosen.entries("laptop"):
        found = [done[key]["metrics"] for key in _keys(entry) if key in done]
        if found:
            rows.append((entry.row, f"{len(found)}", *(_mean(entry, found, head) for head in heads)))
    return table(("encoder", "seeds", *heads), rows)


def _keys(entry: Entry) -> list[str]:
    return [entry.run.with_seed(seed).key for seed in range(5)]


def _mean(entry: Entry, found: list[dict[str, float]], head: str) -> str:
    metric = entry.cells.get(head)
    return "" if metric is None else f"{100 * over_seeds([each[metric] for each in found]).mean:.1f}"


def main() -> None:
    """Show the plan, or collect results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("plan", "collect"), default="plan")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/experiments"))
    arguments = parser.parse_args()
    if arguments.what == "collect":
        from replication import page  # imports this module

        print(f"{collect(arguments.folder)} runs in {FILE.name} and {SWAP_FILE.name}.")
        page.write()
        print("The pages are written.")
        return
    print(plan(), "", *(part.command() for part in (*PLAN, *SWAP)), sep="\n")
    for name in ("encoders", "refined"):
        print("", scores(name), sep="\n")


if __name__ == "__main__":
    main()
