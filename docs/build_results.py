"""The tables of docs/results: laid out anew from the runs' own JSON files, which lie in docs/results/runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from loope.data.segmentation.camvid import LABELS
from loope.experiments.results import folder_of, read_result
from loope.experiments.sheet import make_sheet
from loope.experiments.table import Entry, get_table
from loope.reports.sheets import markdown

RUNS = Path(__file__).parent / "results" / "runs"
SEEDS = range(5)
NONE_DONE = "*None of its runs is done.*"


def finished(name: str, epochs: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Row and result of every run of a table that is done; of the preset's length, or so many epochs long."""
    for entry in get_table(name).with_epochs(epochs).entries("laptop"):
        for result in results_of(entry):
            yield entry.row, result


def results_of(entry: Entry) -> Iterator[dict[str, Any]]:
    """Of each seed that is done."""
    for seed in SEEDS:
        result = read_result(folder_of(entry.run.with_seed(seed), RUNS))
        if result:
            yield result


def by_seed(name: str) -> dict[tuple[str, str], dict[int, float]]:
    """(row, column) -> seed -> our number, as it is shown, of every run of a table that is done."""
    table = get_table(name)
    scales = {column.head: column.scale for column in table.columns}
    found: dict[tuple[str, str], dict[int, float]] = {}
    for entry in table.entries("laptop"):
        for seed in SEEDS:
            result = read_result(folder_of(entry.run.with_seed(seed), RUNS)) or {"metrics": {}}
            for column, metric in entry.cells.items():
                if metric in result["metrics"]:
                    cell = found.setdefault((entry.row, column), {})
                    cell[seed] = scales[column] * result["metrics"][metric]
    return found


def beside_published(name: str, epochs: int | None = None) -> str:
    """The rows of a table that have a run, ours beside the published."""
    sheet = make_sheet(get_table(name).with_epochs(epochs), "laptop", SEEDS, RUNS)
    rows = [(row, cells) for row, cells in sheet.rows if any(cell.ours is not None for cell in cells)]
    if not rows:
        return NONE_DONE
    return markdown(replace(sheet, rows=rows)).split("\n\n", 1)[1].rstrip()


def camvid_classes() -> str:
    """Intersection over union of each class."""
    lines = [f"| IoU, % | {' | '.join(LABELS.names)} |", "|---" * (1 + len(LABELS)) + "|"]
    for row, result in finished("table3"):
        lines.append(f"| {row} | {' | '.join(f'{100 * value:.1f}' for value in result['details']['iou'])} |")
    return "\n".join(lines)


def camvid_minutes() -> str:
    """How long each run took on one core, and the best it saw of the validation part."""
    head = ("run", "minutes", "images/s", "best epoch, by validation", "its validation mIoU, %")
    lines = [f"| {' | '.join(head)} |", "|---|---:|---:|---:|---:|"]
    for row, result in finished("table3"):
        metrics = result["metrics"]
        cells = (
            f"{result['seconds'] / 60:.1f}",
            f"{result['images_per_second']:.1f}",
            f"{metrics['best_epoch']}",
            f"{100 * metrics['best_miou']:.1f}",
        )
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/results/segmentation.md", "table3"): partial(beside_published, "table3"),
    ("docs/results/segmentation.md", "classes"): camvid_classes,
    ("docs/results/segmentation.md", "minutes"): camvid_minutes,
}
