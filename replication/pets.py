"""All encoders on Pets together, for docs/results/replication.md: Table 1 has some of them, Table 2 the others."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from pandas import DataFrame

import loope
from loope.core.files import write_atomic
from loope.lab.experiments.statistics import paired
from loope.lab.experiments.table import get_table
from loope.lab.reports.figures import learning_curves
from loope.plots import png
from replication.plan import PETS, in_points
from replication.results import results_of, table

SEEDS = range(PETS[0].seeds)
VIT_TINY: dict[str, Any] = {"dim": 192, "grid": 14, "heads": 3, "depth": 12, "patch_size": 16}


def pets() -> str:
    """Accuracy of each seed, the best first, what LOOPE has more, and how much is added to tokens before training."""
    scores, added = by_encoder(), {encoder: _added(result["run"]["encoder"]) for encoder, result in on_pets()}
    pesi = DataFrame([{"encoder": encoder, **result["metrics"]} for encoder, result in on_pets()])
    pesi = pesi.groupby("encoder")[["pesi_m_u", "pesi_m_d"]].mean()
    rows = []
    for encoder in scores.mean().sort_values(ascending=False, kind="stable").index:
        found = scores[encoder]
        difference = "-" if encoder == "LOOPE" else in_points(paired(scores["LOOPE"], found))
        measured = ("-" if math.isnan(value) else f"{value:.4f}" for value in pesi.loc[encoder])
        accuracies = (f"{value:.1f}" for value in (*found, found.mean()))
        rows.append((encoder, *accuracies, difference, added[encoder], *measured))
    seeds = (f"seed {seed}" for seed in SEEDS)
    heads = ("top-1 on test, %", *seeds, "mean", "LOOPE minus it", "added at the start", "M_U", "M_D")
    return table(heads, rows)


def by_encoder() -> DataFrame:
    """Accuracy on test, in percent: a line for each seed, a column for each encoder."""
    scores: dict[str, dict[int, float]] = {}
    for encoder, result in on_pets():
        scores.setdefault(encoder, {})[result["run"]["seed"]] = 100 * result["metrics"]["top1"]
    return DataFrame(scores)


def draw(images: Path) -> None:
    """Accuracy on validation by epoch, a line for each run."""
    curves: dict[str, list[list[tuple[float, float]]]] = {}
    for encoder, result in on_pets():
        points = [(each["epoch"], 100 * each["metrics"]["top1"]) for each in result["history"]]
        curves.setdefault(encoder, []).append(points)
    write_atomic(images / "replication-pets.png", png(learning_curves(curves, "epoch", "top-1 on validation, %")))


def on_pets() -> Iterator[tuple[str, dict[str, Any]]]:
    """Encoder and result of every run that is done."""
    for part in PETS:
        for entry in get_table(part.table).select("laptop", *part.only):
            # Table 1 has its encoders side by side, Table 2 one below the other.
            encoder = next(iter(entry.cells)) if part.table == "table1" else entry.row
            for result in results_of(entry):
                yield encoder, result


def _added(chosen: dict[str, Any]) -> str:
    """Root mean square of the vectors that a new encoder adds, if that is what it does."""
    if chosen["name"] == "own":
        return "-"  # not new, and in a file that is not everywhere
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        encoder = loope.create_encoder(chosen["name"], **VIT_TINY, **chosen["options"])
        if "embed" not in encoder.hooks():
            return "-"
        return f"{encoder(torch.zeros(1, 3, 224, 224)).square().mean().sqrt():.2f}"


TABLES: dict[str, Callable[[], str]] = {"pets": pets}
