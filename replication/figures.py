"""The figures of the page, and the paper's tables with our numbers beside the published ones."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from loope.core.files import write_atomic
from loope.lab.experiments.figures import DRAWINGS
from loope.lab.experiments.report import make_results_table
from loope.lab.experiments.table import get_table
from loope.lab.reports.formats import markdown
from loope.plots import png
from replication import results
from replication.plan import EARLIER, FIVE, LARGE, LARGE_EPOCHS, LONG, OTHERS, STUCK
from replication.results import SEEDS


def beside_published(name: str, epochs: int | None = None) -> str:
    """Return the rows of a table that have a run, ours beside the published."""
    table = make_results_table(get_table(name).with_epochs(epochs), "laptop", SEEDS, results.RESULTS)
    rows = [(row, cells) for row, cells in table.rows if any(cell.ours is not None for cell in cells)]
    return markdown(replace(table, rows=rows)).split("\n\n", 1)[1].rstrip()


def draw(images: Path) -> None:
    """Draw the figures."""
    table = get_table("table4")
    shown = {
        "scores": ("scores", table.narrowed(*FIVE, *OTHERS, *EARLIER)),
        "curves": ("curves", table.narrowed(*FIVE)),
        "curves-others": ("curves", table.narrowed(*OTHERS)),
        "curves-long": ("curves", table.with_epochs(LONG).narrowed(*STUCK)),
        "curves-14x14": ("curves", table.with_epochs(LARGE_EPOCHS).narrowed(*LARGE)),
        "maps": ("maps", table.narrowed(*FIVE[1:], "Learnable |*", "LFF (Fourier) |*")),
        "offsets": ("offsets", get_table("inputs")),
        "alignment": ("alignment", get_table("alignment")),
    }
    for name, (kind, rows) in shown.items():
        write_atomic(images / f"replication-{name}.png", png(DRAWINGS[kind](rows, "laptop", SEEDS, results.RESULTS)))


TABLES: dict[str, Callable[[], str]] = {
    "14x14": partial(beside_published, "table4", LARGE_EPOCHS),
    **{
        name: partial(beside_published, name)
        for name in ("table4", "inputs", "table6", "table1", "table2", "alignment")
    },
}
