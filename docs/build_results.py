"""The tables of docs/results: laid out anew from the runs' own JSON files, which lie in docs/results/runs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from loope.experiments.results import folder_of, read_result
from loope.experiments.sheet import make_sheet
from loope.experiments.table import get_table
from loope.reports.sheets import markdown

RUNS = Path(__file__).parent / "results" / "runs"
SEEDS = range(5)


def done(name: str) -> str:
    """The rows of a table that have a run, ours beside the published."""
    sheet = make_sheet(get_table(name), "laptop", SEEDS, RUNS)
    rows = [(row, cells) for row, cells in sheet.rows if any(cell.ours is not None for cell in cells)]
    return markdown(replace(sheet, rows=rows, notes=())).split("\n\n", 1)[1].rstrip()


def classes(name: str, heads: tuple[str, ...]) -> str:
    """Intersection over union of each class, for every run of a table of segmentation."""
    lines = [f"| IoU, % | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for entry in get_table(name).entries("laptop"):
        for seed in SEEDS:
            result = read_result(folder_of(entry.run.with_seed(seed), RUNS))
            if result:
                cells = [f"{100 * value:.1f}" for value in result["details"]["iou"]]
                lines.append(f"| {entry.row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def minutes(name: str) -> str:
    """How long each run took on one core, and what it saw of itself."""
    lines = ["| run | minutes | images/s | best epoch, by validation | its validation mIoU |", "|---|---:|---:|---:|---:|"]
    for entry in get_table(name).entries("laptop"):
        for seed in SEEDS:
            result = read_result(folder_of(entry.run.with_seed(seed), RUNS))
            if result:
                metrics = result["metrics"]
                lines.append(
                    f"| {entry.row} | {result['seconds'] / 60:.1f} | {result['images_per_second']:.1f} | "
                    f"{metrics['best_epoch']} | {100 * metrics['best_miou']:.1f} |"
                )
    return "\n".join(lines)


def camvid_classes() -> str:
    """With CamVid's names."""
    from loope.data.segmentation.camvid import LABELS

    return classes("table3", LABELS.names)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/results/segmentation.md", "table3"): partial(done, "table3"),
    ("docs/results/segmentation.md", "classes"): camvid_classes,
    ("docs/results/segmentation.md", "minutes"): partial(minutes, "table3"),
}
