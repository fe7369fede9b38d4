"""All encoders on Pets together, for docs/results/replication.md: Table 1 has some of them, Table 2 the others."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

import loope
from loope.core.files import write_atomic
from loope.lab.experiments.statistics import paired
from loope.lab.experiments.table import get_table
from loope.lab.reports.figures import learning_curves
from loope.plots import png
from replication.figures import NONE_DONE
from replication.plan import PETS, in_points
from replication.results import results_of

SEEDS = range(PETS[0].seeds)
VIT_TINY: dict[str, Any] = {"dim": 192, "grid": 14, "heads": 3, "depth": 12, "patch_size": 16}


def pets() -> str:
    """Accuracy of each seed, the best first, what LOOPE has more, and how much is added to tokens before training."""
    scores = by_encoder()
    added: dict[str, str] = {}
    pesi: dict[str, list[list[float | None]]] = {}
    for encoder, result in on_pets():
        added[encoder] = _added(result["run"]["encoder"])
        pesi.setdefault(encoder, []).append([result["metrics"].get(f"pesi_{name}") for name in ("m_u", "m_d")])
    seeds = (f"seed {seed}" for seed in SEEDS)
    heads = ("top-1 on test, %", *seeds, "mean", "LOOPE minus it", "added at the start", "M_U", "M_D")
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for encoder, found in sorted(scores.items(), key=lambda each: -fmean(each[1].values())):
        cells = [f"{found[seed]:.1f}" if seed in found else "-" for seed in SEEDS]
        compared = encoder != "LOOPE" and found.keys() & scores.get("LOOPE", {}).keys()
        difference = in_points(paired(scores["LOOPE"], found)) if compared else "-"
        cells += [f"{fmean(found.values()):.1f}", difference, added[encoder]]
        for measured in zip(*pesi[encoder], strict=True):
            values = [value for value in measured if value is not None]
            cells.append(f"{fmean(values):.4f}" if len(values) == len(measured) else "-")
        lines.append(f"| {encoder} | {' | '.join(cells)} |")
    return "\n".join(lines) if scores else NONE_DONE


def by_encoder() -> dict[str, dict[int, float]]:
    """Encoder -> seed -> accuracy on test, in percent."""
    scores: dict[str, dict[int, float]] = {}
    for encoder, result in on_pets():
        scores.setdefault(encoder, {})[result["run"]["seed"]] = 100 * result["metrics"]["top1"]
    return scores


def draw(images: Path) -> None:
    """Accuracy on validation by epoch, a line for each run."""
    curves: dict[str, list[list[tuple[float, float]]]] = {}
    for encoder, result in on_pets():
        points = [(each["epoch"], 100 * each["metrics"]["top1"]) for each in result["history"]]
        curves.setdefault(encoder, []).append(points)
    if curves:
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
