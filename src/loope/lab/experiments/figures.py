"""Draw the figures of tables from the results of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loope.lab.experiments.results import Results
from loope.lab.experiments.segmentation import labels_of
from loope.lab.experiments.table import Entry, Table
from loope.lab.reports.figures import clouds, intervals, learning_curves, lines, scatter
from loope.plots import similarity_maps
from loope.segmentation.drawing import examples as draw_examples

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(table: Table, preset: str, seeds: Sequence[int], results: Results) -> dict[str, Figure]:
    """Draw the figures of a table for which there are results, by name."""
    made = {}
    for name in table.plots:
        figure = DRAWINGS[name](table, preset, seeds, results)
        if figure is not None:
            made[f"{table.name}-{name}"] = figure
    return made


def scores(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw the last column of each row with its interval, and the published number."""
    column = table.columns[-1]
    found = {
        row: (column.scale * line[column.head].mean, column.scale * line[column.head].half)
        for row, line in results.means(table, preset, seeds).items()
        if column.head in line
    }
    published = {row: table.published.get(row, {}).get(column.head) for row in found}
    across = f"{column.head}, %" if column.scale == 100 else column.head
    return intervals({row: (*each, published[row]) for row, each in found.items()}, across) if found else None


def curves(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw the validation score over epochs, for each row and seed."""
    found: dict[str, list[list[tuple[float, float]]]] = {}
    for entry in table.entries(preset):
        headline = list(entry.cells.values())[-1]
        for result in results.of_entry(entry, seeds):
            points = [(each["epoch"], 100 * each["metrics"][headline]) for each in result["history"]]
            found.setdefault(entry.row, []).append(points)
    return learning_curves(found, "epoch", "validation score, %") if found else None


def maps(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw similarity maps of nine patches for each row of the table."""
    kept = {entry.row: _tensors(entry, seeds, results) for entry in table.entries(preset)}
    found = {row: each for row, each in kept.items() if each is not None}
    if not found:
        return None
    # A pretrained position table may have another grid: only equal grids share a figure.
    grid = tuple(next(iter(found.values()))["grid"].tolist())
    same = {row: each["similarity"] for row, each in found.items() if tuple(each["grid"].tolist()) == grid}
    return similarity_maps(same, grid)


def trend(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw M_D against the number of directions."""
    found = {
        row: [(float(head.split(" = ")[1]), mean.mean) for head, mean in line.items() if head.startswith("N = ")]
        for row, line in results.means(table, preset, seeds).items()
    }
    return lines(found, "directions N", "M_D") if found else None


def alignment(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw distance accuracy against M_U."""
    found = {
        row: (line["M_U"].mean, 100 * line["Distance"].mean)
        for row, line in results.means(table, preset, seeds).items()
        if "M_U" in line and "Distance" in line
    }
    return scatter(found, "M_U after training", "distance accuracy, %") if found else None


def offsets(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw the score of each run against the size of LOOPE's offsets, 0 for the static curve."""
    found: dict[str, list[tuple[float, float]]] = {}
    for entry in table.entries(preset):
        headline = list(entry.cells.values())[-1]
        for metrics in (result["metrics"] for result in results.of_entry(entry, seeds)):
            if "offset_size" in metrics or entry.run.encoder.name == "gilbert":
                point = (metrics.get("offset_size", 0.0), 100 * metrics[headline])
                found.setdefault(entry.row, []).append(point)
    return clouds(found, "mean size of X_C, in patches", "score, %") if found else None


def examples(table: Table, preset: str, seeds: Sequence[int], results: Results) -> Figure | None:
    """Draw test images with ground truth and predictions of each row, errors marked."""
    kept = {entry.row: (entry, _tensors(entry, seeds, results)) for entry in table.entries(preset)}
    found = {row: (entry, each) for row, (entry, each) in kept.items() if each is not None and "masks" in each}
    if not found:
        return None
    entry, first = next(iter(found.values()))
    masks = {row: each["masks"].long() for row, (_, each) in found.items()}
    return draw_examples(first["examples"], first["truths"].long(), masks, labels_of(entry.run))


def _tensors(entry: Entry, seeds: Sequence[int], results: Results) -> dict[str, Any] | None:
    """Return the tensors kept by the first finished seed."""
    kept = (results.tensors(entry.run.with_seed(seed)) for seed in seeds)
    return next((tensors for tensors in kept if tensors is not None), None)


DRAWINGS: dict[str, Callable[[Table, str, Sequence[int], Results], Any]] = {
    "scores": scores,
    "curves": curves,
    "maps": maps,
    "trend": trend,
    "alignment": alignment,
    "offsets": offsets,
    "examples": examples,
}
