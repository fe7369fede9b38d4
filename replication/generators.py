"""What became of LOOPE's generator in each run, for docs/results/replication.md, and whether its offsets help."""

from collections.abc import Callable

from loope.lab.experiments.statistics import paired
from loope.lab.experiments.tables import inputs
from replication.claims import correlation
from replication.plan import LARGE_EPOCHS, chance, in_points
from replication.results import by_seed, finished, table

TRAINED = (("table4", None), ("inputs", None), ("table6", None), ("table1", None), ("table4", LARGE_EPOCHS))


def generators() -> str:
    """Whether LOOPE's offsets depend on the image, in every run that has them, and how it scores."""
    heads = ("run", "mean size of X_C", "it varies over images by", "patches out of the static order", "test, %")
    rows: dict[str, tuple[str, ...]] = {}
    for name, epochs in TRAINED:
        for row, result in finished(name, epochs):
            metrics = result["metrics"]
            if "offset_size" in metrics:  # tables share runs: each is named where it comes first
                blind = result["run"]["encoder"]["options"].get("inputs") == "xy"
                score = metrics["average"] if "average" in metrics else metrics["top1"]
                varies = "it reads none" if blind else f"{metrics['offset_over_images']:.3f}"
                what = "Pets, ViT-Tiny" if result["run"]["data"]["name"] == "pets" else row
                run = f"{name}, {what}, seed {result['run']['seed']}"
                size, swapped = f"{metrics['offset_size']:.3f}", f"{metrics['offset_swapped']:.1%}"
                rows.setdefault(result["key"], (run, size, varies, swapped, f"{100 * score:.1f}"))
    return table(heads, rows.values())


def variants() -> str:
    """Each variant of LOOPE minus the static curve, seed by seed."""
    cells = by_seed("inputs")
    rows = []
    for row in inputs.ROWS:
        if row != "Static" and (row, "Average") in cells:
            found = paired(cells[row, "Average"], cells["Static", "Average"])
            rows.append((row, in_points(found), f"{found.n}", chance(found.p)))
    return table(("minus Static, average", "points", "seeds", "p"), rows)


def movement() -> str:
    """Over runs of the variants, without and with the static curve: how accuracy goes with how far patches moved."""
    everything = [result["metrics"] for _, result in finished("inputs")]
    groups = {
        "that move patches": [scores for scores in everything if "offset_size" in scores],
        "the static curve's, which move none, included": everything,
    }
    measures = {"offset_size": "mean size of X_C", "offset_swapped": "patches out of the static order"}
    rows = []
    for measure, words in measures.items():
        for which, runs in groups.items():
            moved, scores = [run.get(measure, 0.0) for run in runs], [run["average"] for run in runs]
            rows.append((words, f"{len(runs)}, {which}", *correlation(moved, scores)))
    return table(("average, rank correlation with", "over runs", "", "95 % interval"), rows, texts=2)


TABLES: dict[str, Callable[[], str]] = {
    "generators": generators,
    "variants": variants,
    "movement": movement,
}
