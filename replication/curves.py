"""How encoders learned on Three-Cell, for docs/results/replication.md: plateaus, longer runs, where they began."""

from collections.abc import Callable
from functools import partial

import torch

import loope
from loope.lab.experiments.build import build_model
from loope.lab.experiments.statistics import over_seeds
from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables import alignment
from loope.three_cell.bits import TASKS
from replication.figures import NONE_DONE
from replication.plan import EARLIER, FIVE, LARGE_EPOCHS, LONG, OTHERS
from replication.results import by_seed, finished


def saturation(epochs: int | None = None) -> str:
    """Table of validation accuracy towards the end of training, and of the epoch at which each run left its plateau.

    Use runs of the preset's length, or of `epochs` epochs if given.
    """
    heads = (
        "average on validation, %",
        "first above 75, epoch",
        "half way",
        "5 epochs before the end",
        "at the end",
        "seeds",
    )
    lines = [f"| {' | '.join(heads)} |", "|---|---:|---:|---:|---:|---:|"]
    curves: dict[str, list[list[float]]] = {}
    for row, result in finished("table4", epochs):
        curves.setdefault(row, []).append([100 * epoch["metrics"]["average"] for epoch in result["history"]])
    for row, seeds in curves.items():
        places = (len(seeds[0]) // 2 - 1, -6, -1)
        means = " | ".join(f"{sum(curve[place] for curve in seeds) / len(seeds):.1f}" for place in places)
        left = [next((epoch for epoch, score in enumerate(curve, 1) if score > 75), None) for curve in seeds]
        lines.append(f"| {row} | {_range(left)} | {means} | {len(seeds)} |")
    return "\n".join(lines) if curves else NONE_DONE


def _range(epochs: list[int | None]) -> str:
    """From the first to the last, if all have one."""
    found = sorted({epoch for epoch in epochs if epoch is not None})
    ends = " to ".join(map(str, dict.fromkeys((found[0], found[-1])))) if found else "never"
    return ends if None not in epochs or not found else f"{ends}, or never"


def longer() -> str:
    """What three times the budget does for the encoders that were on a plateau, seed by seed."""
    short = {(row, result["run"]["seed"]): result for row, result in finished("table4")}
    questions = " | ".join(task.replace("_", " ") for task in TASKS)
    lines = [
        f"| on test, % | seed | average, 30 epochs | average, 90 epochs | {questions} |",
        "|---" + "|---:" * (3 + len(TASKS)) + "|",
    ]
    for row, result in finished("table4", LONG):
        seed, after = result["run"]["seed"], result["metrics"]
        shown = (short[row, seed]["metrics"]["average"], after["average"], *(after[task] for task in TASKS))
        lines.append(f"| {row} | {seed} | {' | '.join(f'{100 * score:.1f}' for score in shown)} |")
    return "\n".join(lines) if len(lines) > 2 else NONE_DONE


def large_pesi() -> str:
    """PESI after training beside the accuracy it is said to go with, on 14x14."""
    heads = " | ".join(f"{score} | {accuracy.lower()}, %" for accuracy, score in alignment.PAIRS.items())
    lines = [f"| after training | {heads} |", "|---" + "|---:" * 2 * len(alignment.PAIRS) + "|"]
    for row, result in finished("table4", LARGE_EPOCHS):
        found = {head: result["metrics"][metric] for head, metric in alignment.METRICS.items()}
        cells = (f"{found[score]:.4f} | {100 * found[accuracy]:.1f}" for accuracy, score in alignment.PAIRS.items())
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 2 else NONE_DONE


def beginnings() -> str:
    """How far vectors of different positions are apart before training, of encoders that add one, beside what came."""
    cells, sizes = by_seed("table4"), {}
    probe = loope.ThreeCell(size=8, grid=7, cell=4)
    images = torch.stack([probe[number][0] for number in range(8)])
    for entry in get_table("table4").narrowed(*FIVE, *OTHERS, *EARLIER).entries("laptop"):
        found = (each for each in build_model(entry.run, 6).modules() if isinstance(each, loope.PositionalEncoder))
        encoder = next(found, None)
        if encoder and "embed" in encoder.hooks() and (entry.row, "Average") in cells:
            with torch.no_grad():
                vectors = encoder(images)
            sizes[entry.row] = (vectors - vectors.mean(1, keepdim=True)).square().mean().sqrt().item()
    lines = ["| encoder | at the start positions vary by, root mean square | average on test, % |", "|---|---:|---:|"]
    for row, size in sorted(sizes.items(), key=lambda each: -each[1]):
        lines.append(f"| {row} | {size:.3f} | {over_seeds(list(cells[row, 'Average'].values())).mean:.1f} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "saturation": saturation,
    "saturation-14x14": partial(saturation, LARGE_EPOCHS),
    "pesi-14x14": large_pesi,
    "beginnings": beginnings,
    "longer": longer,
}
