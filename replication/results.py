"""The runs of the study, from one compact file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pandas import Series

from loope.lab.experiments.results import Results
from loope.lab.experiments.spec import Run
from loope.lab.experiments.table import Entry, Table, get_table

FOLDER = Path(__file__).parent
RUNS, PICTURES = FOLDER / "runs.jsonl", FOLDER / "pictures.safetensors"
SEEDS = range(5)


def compact(result: dict[str, Any]) -> dict[str, Any]:
    """Turn a result's history into columns, rounded to six digits, without the confusions of single epochs."""
    names = [name for name, value in result["history"][0]["metrics"].items() if isinstance(value, float)]
    columns = {name: [epoch[name] for epoch in result["history"]] for name in ("epoch", "loss", "seconds")}
    scores = {name: [epoch["metrics"][name] for epoch in result["history"]] for name in names}
    return {**result, "history": _rounded({**columns, "metrics": scores})}


def expand(result: dict[str, Any]) -> dict[str, Any]:
    """Undo `compact`, but for the digits and the confusions."""
    columns = result["history"]
    epochs = [
        {
            **{name: columns[name][place] for name in columns if name != "metrics"},
            "metrics": {name: values[place] for name, values in columns["metrics"].items()},
        }
        for place in range(len(columns["epoch"]))
    ]
    return {**result, "history": epochs}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


@cache
def read_runs() -> dict[str, dict[str, Any]]:
    """Return every result in the file by its run's key."""
    lines = (expand(json.loads(line)) for line in RUNS.read_text().splitlines())
    return {result["key"]: result for result in lines}


@cache
def _pictures() -> dict[str, dict[str, Any]]:
    from safetensors.torch import load_file

    found: dict[str, dict[str, Any]] = {}
    for name, tensor in load_file(PICTURES).items():
        key, what = name.split("/")
        found.setdefault(key, {})[what] = tensor
    return found


def _tensors(run: Run) -> dict[str, Any] | None:
    return _pictures().get(run.key)


RESULTS = Results(lambda run: read_runs().get(run.key), _tensors)


def finished(name: str, epochs: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield row and result of every finished run of a table, of the preset's length or of `epochs`."""
    for entry in get_table(name).with_epochs(epochs).entries("laptop"):
        for result in results_of(entry):
            yield entry.row, result


def results_of(entry: Entry) -> list[dict[str, Any]]:
    """Return the results of the seeds that are done."""
    return RESULTS.of_entry(entry, SEEDS)


def by_seed(name: str) -> Series[float]:
    """Return our numbers by (row, column, seed), in the unit that the table shows."""
    return in_units(get_table(name), RESULTS)


def in_units(table: Table, results: Results) -> Series[float]:
    """Return the numbers of a table by (row, column, seed), in the unit that it shows."""
    found = results.frame(table, "laptop", SEEDS)
    found["value"] *= found["column"].map({column.head: column.scale for column in table.columns})
    return found.set_index(["row", "column", "seed"])["value"].sort_index()


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a Markdown table whose first `texts` columns are text and the others numbers."""
    rule = "|---" * texts + "|---:" * (len(heads) - texts) + "|"
    head = f"| {' | '.join(heads)} |".replace("  ", " ")  # an empty head
    return "\n".join([head, rule, *(f"| {' | '.join(row)} |" for row in rows)])
