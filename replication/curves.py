"""How encoders learned on Three-Cell, for docs/results/replication.md: plateaus, longer runs, where they began."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from statistics import fmean

import torch

import loope
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables import alignment
from loope.lab.experiments.three_cell import ThreeCellProbe
from loope.three_cell.bits import TASKS
from replication.plan import EARLIER, FIVE, LARGE_EPOCHS, LONG, OTHERS
from replication.results import by_seed, finished, table


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
    curves: dict[str, list[list[float]]] = {}
    for row, result in finished("table4", epochs):
        curves.setdefault(row, []).append([100 * epoch["metrics"]["average"] for epoch in result["history"]])
    rows = []
    for row, seeds in curves.items():
        places = (len(seeds[0]) // 2 - 1, -6, -1)
        means = (f"{fmean(curve[place] for curve in seeds):.1f}" for place in places)
        left = [next((epoch for epoch, score in enumerate(curve, 1) if score > 75), None) for curve in seeds]
        rows.append((row, _range(left), *means, f"{len(seeds)}"))
    return table(heads, rows)


def _range(epochs: list[int | None]) -> str:
    """From the first to the last, if all have one."""
    found = sorted({epoch for epoch in epochs if epoch is not None})
    ends = " to ".join(map(str, dict.fromkeys((found[0], found[-1])))) if found else "never"
    return ends if None not in epochs or not found else f"{ends}, or never"


def longer() -> str:
    """What three times the budget does for the encoders that were on a plateau, seed by seed."""
    short = {(row, result["run"]["seed"]): result for row, result in finished("table4")}
    questions = (task.replace("_", " ") for task in TASKS)
    rows = []
    for row, result in finished("table4", LONG):
        seed, after = result["run"]["seed"], result["metrics"]
        shown = (short[row, seed]["metrics"]["average"], after["average"], *(after[task] for task in TASKS))
        rows.append((row, f"{seed}", *(f"{100 * score:.1f}" for score in shown)))
    return table(("on test, %", "seed", "average, 30 epochs", "average, 90 epochs", *questions), rows)


def large_pesi() -> str:
    """PESI after training beside the accuracy it is said to go with, on 14x14."""
    heads, rows = ["after training"], []
    for accuracy, score in alignment.PAIRS.items():
        heads += [score, f"{accuracy.lower()}, %"]
    for row, result in finished("table4", LARGE_EPOCHS):
        found = {head: result["metrics"][metric] for head, metric in alignment.METRICS.items()}
        pairs = ((f"{found[score]:.4f}", f"{100 * found[accuracy]:.1f}") for accuracy, score in alignment.PAIRS.items())
        rows.append((row, *chain(*pairs)))
    return table(heads, rows)


def beginnings() -> str:
    """How far vectors of different positions are apart before training, of encoders that add one, beside what came."""
    cells, sizes = by_seed("table4"), {}
    probe = loope.ThreeCell(size=8, grid=7, cell=4)
    images = torch.stack([probe[number][0] for number in range(8)])
    for entry in get_table("table4").narrowed(*FIVE, *OTHERS, *EARLIER).entries("laptop"):
        model = ThreeCellProbe(entry.run, Settings()).build_model()
        encoder = next((each for each in model.modules() if isinstance(each, loope.PositionalEncoder)), None)
        if encoder and "embed" in encoder.hooks() and (entry.row, "Average") in cells:
            with torch.no_grad():
                vectors = encoder(images)
            sizes[entry.row] = (vectors - vectors.mean(1, keepdim=True)).square().mean().sqrt().item()
    ordered = sorted(sizes.items(), key=lambda each: -each[1])
    rows = ((row, f"{size:.3f}", f"{cells[row, 'Average'].mean():.1f}") for row, size in ordered)
    return table(("encoder", "at the start positions vary by, root mean square", "average on test, %"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "saturation": saturation,
    "saturation-14x14": partial(saturation, LARGE_EPOCHS),
    "pesi-14x14": large_pesi,
    "beginnings": beginnings,
    "longer": longer,
}
