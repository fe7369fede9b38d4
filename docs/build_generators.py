"""What became of LOOPE's generator in each run, for docs/results/replication.md, and whether its offsets help."""

from collections.abc import Callable

from build_replication import PAGE, chance, in_points
from build_results import by_seed, finished
from loope.experiments.statistics import paired, rank_correlation, rank_interval
from loope.experiments.tables import inputs

TRAINED = (("table4", None), ("inputs", None), ("table6", None), ("table1", None), ("table4", 40))


def generators() -> str:
    """Whether LOOPE's offsets depend on the image, in every run that has them, and how it scores."""
    head = "| run | mean size of X_C | it varies over images by | patches out of the static order | test, % |"
    lines = {"": head, "-": "|---|---:|---:|---:|---:|"}
    for name, epochs in TRAINED:
        for row, result in finished(name, epochs):
            metrics = result["metrics"]
            if "offset_size" in metrics:  # tables share runs: each is named where it comes first
                blind = result["run"]["encoder"]["options"].get("inputs") == "xy"
                score = metrics["average"] if "average" in metrics else metrics["top1"]
                varies = "it reads none" if blind else f"{metrics['offset_over_images']:.3f}"
                lines.setdefault(
                    result["key"],
                    f"| {name}, {row}, seed {result['run']['seed']} | {metrics['offset_size']:.3f} | {varies} "
                    f"| {metrics['offset_swapped']:.1%} | {100 * score:.1f} |",
                )
    return "\n".join(lines.values())


def variants() -> str:
    """Each variant of LOOPE less the static curve, seed by seed."""
    cells = by_seed("inputs")
    lines = ["| less Static, average | points | seeds | p |", "|---|---:|---:|---:|"]
    for row in inputs.ROWS:
        if row != "Static" and (row, "Average") in cells:
            found = paired(cells[row, "Average"], cells["Static", "Average"])
            lines.append(f"| {row} | {in_points(found)} | {found.n} | {chance(found.p)} |")
    return "\n".join(lines)


def movement() -> str:
    """Over all runs of the variants: how accuracy goes with how far patches were moved."""
    scores = [result["metrics"] for _, result in finished("inputs") if "offset_size" in result["metrics"]]
    lines = [f"| average over {len(scores)} runs, rank correlation with | | 95 % interval |", "|---|---:|---:|"]
    measures = {"offset_size": "mean size of X_C", "offset_swapped": "patches out of the static order"}
    for measure, words in measures.items():
        found = rank_correlation([each[measure] for each in scores], [each["average"] for each in scores])
        low, high = rank_interval(found, len(scores))
        lines.append(f"| {words} | {found:+.2f} | {low:+.2f} to {high:+.2f} |")
    return "\n".join(lines)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    (PAGE, "generators"): generators,
    (PAGE, "variants"): variants,
    (PAGE, "movement"): movement,
}
