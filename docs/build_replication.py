"""The tables of docs/results/replication.md: the plan, how far it is, and what has come out, from the runs' files."""

import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from build_results import RUNS, SEEDS, beside_published, by_seed
from loope.core.files import write_atomic
from loope.experiments.pictures import DRAWINGS
from loope.experiments.results import folder_of, read_result
from loope.experiments.spec import Run
from loope.experiments.statistics import Difference, holm, paired
from loope.experiments.table import get_table
from loope.experiments.tables import table4
from loope.reports.plots import png

PAGE = "docs/results/replication.md"


class Part(NamedTuple):
    """Runs of a table, and the seeds they are done with."""

    what: str
    table: str
    only: tuple[str, ...]
    seeds: int
    epochs: int | None = None

    def command(self) -> str:
        """What does it, or goes on with it."""
        patterns = " ".join(f"--only '{pattern}'" for pattern in self.only)
        seeds = ",".join(map(str, range(self.seeds)))
        length = f" --epochs {self.epochs}" if self.epochs else ""
        return f"loope run {self.table} --preset laptop{length} --seeds {seeds} {patterns}".strip()

    def runs(self) -> list[Run]:
        """All of them."""
        entries = get_table(self.table).with_epochs(self.epochs).select("laptop", *self.only)
        return [entry.run.with_seed(seed) for entry in entries for seed in range(self.seeds)]


FIVE = ("No PE |*", "1D Sinusoid |*", "Static |*", "LOOPE |*", "2D sin/cos |*")
OTHERS = (
    *("ResNet* |*", "Learnable |*", "CPE |*", "RPE |*", "LFF (Fourier) |*", "2D Sinusoid |*", "AS2DRoPE |*"),
    *("RoPE mixed |*", "ALiBi 2D |*"),
)
EARLIER = tuple(f"{row} |*" for row in table4.EARLIER)  # what two rows were until their defaults were mended
LONG = 90  # epochs: three times the budget
# Ended below 80 % when the budget ran out; put into the plan when that was seen.
STUCK = ("Learnable |*", "RPE |*", "LFF / sqrt(F) |*", "2D Sinusoid |*", "ALiBi 2D |*")
LARGE, LARGE_EPOCHS = ("*, 14x14 |*",), 40  # epochs: five times the preset's
PETS = (
    Part("Pets: 1D encoders, and the model's own table", "table1", ("Oxford-IIIT / ViT-Base*",), 2),
    Part(
        "Pets: other encoders",
        "table2",
        ("2D sin/cos | Oxford-IIIT", "LFF* | Oxford-IIIT", "CPE | Oxford-IIIT", "AS2DRoPE, base 100 | Oxford-IIIT"),
        2,
    ),
)
PLAN = (
    Part("Three-Cell, 7x7: five encoders", "table4", FIVE, 5),
    Part("Three-Cell, 7x7: eight more, and a CNN", "table4", OTHERS, 3),
    Part("Three-Cell, 7x7: LFF divided by sqrt(F), AS2DRoPE with base 100", "table4", EARLIER, 3),
    Part("What LOOPE's generator sees", "inputs", ("LOOPE*",), 3),
    Part("Frequency sets", "table6", (), 3),
    *PETS,
    Part("Three-Cell, 7x7, three times as long: encoders that were on a plateau", "table4", STUCK, 1, epochs=LONG),
    Part("Three-Cell, 14x14, five times as long", "table4", LARGE, 1, epochs=LARGE_EPOCHS),
)
COMPARED = ("1D Sinusoid", "Static", "2D sin/cos", *(pattern.removesuffix(" |*") for pattern in OTHERS[1:]))


@cache
def planned() -> dict[str, Run]:
    """All runs by their keys, once; parts share some."""
    return {run.key: run for part in PLAN for run in part.runs()}


def plan() -> str:
    """How far each part is."""
    lines = ["| part | runs | done | minutes of training a run |", "|---|---:|---:|---:|"]
    for part in PLAN:
        runs = {run.key: run for run in part.runs()}.values()
        results = done(runs)
        spent = sum(result["training_seconds"] for result in results) / 60
        lines.append(
            f"| {part.what} | {len(runs)} | {len(results)} | {f'{spent / len(results):.1f}' if results else '-'} |"
        )
    results = done(planned().values())
    hours = sum(result["training_seconds"] for result in results) / 3600
    lines.append(f"| All, each once | {len(planned())} | {len(results)} | {hours:.0f} hours together |")
    return "\n".join(lines)


def done(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """What came out of those that are."""
    return [result for run in runs if (result := read_result(folder_of(run, RUNS)))]


def progress() -> tuple[int, int]:
    """How many runs are done, and how many there are."""
    runs = planned().values()
    return len(done(runs)), len(runs)


def is_complete(name: str, cells: set[tuple[str, str]]) -> bool:
    """Whether all seeds that are planned for these cells (row, column) of a table are done."""
    runs = [
        entry.run.with_seed(seed)
        for entry in get_table(name).entries("laptop")
        for seed in SEEDS
        if any((entry.row, column) in cells for column in entry.cells)
    ]
    wanted = [run for run in runs if run.key in planned()]
    return bool(wanted) and len(done(wanted)) == len(wanted)


def commands() -> str:
    """A command for each part."""
    return "\n".join(["```console", *(part.command() for part in PLAN), "```"])


def differences() -> str:
    """LOOPE less each other encoder on Three-Cell, seed by seed, in points."""
    lines = ["| LOOPE less | points | seeds | p | p, corrected |", "|---|---:|---:|---:|---:|"]
    for row, (found, corrected) in against_loope().items():
        lines.append(f"| {row} | {in_points(found)} | {found.n} | {chance(found.p)} | {chance(corrected)} |")
    return "\n".join(lines)


def against_loope() -> dict[str, tuple[Difference, float]]:
    """Encoder -> LOOPE's average accuracy less its own, and the p of all these tests together."""
    cells = by_seed("table4")
    loope = cells.get(("LOOPE", "Average"), {})
    found = {
        row: paired(loope, cells[row, "Average"])
        for row in COMPARED
        if loope.keys() & cells.get((row, "Average"), {}).keys()
    }
    # Tests that are still to come count: what is told early must not be told with too little doubt.
    chances = [found[row].p if row in found and found[row].n > 1 else 1.0 for row in COMPARED]
    corrected = dict(zip(COMPARED, holm(chances), strict=True))
    return {row: (each, corrected[row] if each.n > 1 else math.nan) for row, each in found.items()}


def in_points(found: Difference, digits: int = 1) -> str:
    """The mean difference with its interval, if it has one."""
    half = "" if math.isnan(found.half) else f" ± {found.half:.{digits}f}"
    return f"{found.mean:+.{digits}f}{half}"


def chance(p: float) -> str:
    """A p in words that fit a table."""
    return "-" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def draw(images: Path) -> None:
    """The pictures of the page, as far as there are runs for them."""
    table = get_table("table4")
    shown = {
        "scores": ("scores", table.narrowed(*FIVE, *OTHERS)),
        "curves": ("curves", table.narrowed(*FIVE)),
        "curves-others": ("curves", table.narrowed(*OTHERS)),
        "curves-long": ("curves", table.with_epochs(LONG).narrowed(*STUCK)),
        "curves-14x14": ("curves", table.with_epochs(LARGE_EPOCHS).narrowed(*LARGE)),
        "maps": ("maps", table.narrowed(*FIVE[1:], "Learnable |*", "LFF (Fourier) |*")),
        "offsets": ("offsets", get_table("inputs")),
        "alignment": ("alignment", get_table("alignment")),
    }
    for name, (kind, rows) in shown.items():
        figure = DRAWINGS[kind](rows, "laptop", SEEDS, RUNS)
        if figure is not None:
            write_atomic(images / f"replication-{name}.png", png(figure))


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    (PAGE, "plan"): plan,
    (PAGE, "commands"): commands,
    (PAGE, "table4"): partial(beside_published, "table4"),
    (PAGE, "differences"): differences,
    (PAGE, "14x14"): partial(beside_published, "table4", LARGE_EPOCHS),
    (PAGE, "inputs"): partial(beside_published, "inputs"),
    (PAGE, "table6"): partial(beside_published, "table6"),
    (PAGE, "table1"): partial(beside_published, "table1"),
    (PAGE, "table2"): partial(beside_published, "table2"),
    (PAGE, "alignment"): partial(beside_published, "alignment"),
}
