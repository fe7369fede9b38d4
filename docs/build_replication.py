"""The tables of docs/results/replication.md: the plan, how far it is, and what has come out, from the runs' files."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from build_results import RUNS, beside_published, finished

from loope.experiments.results import folder_of, read_result
from loope.experiments.spec import Run
from loope.experiments.statistics import paired
from loope.experiments.table import get_table

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
    *("ResNet-50 |*", "Learnable |*", "CPE |*", "RPE |*", "LFF (Fourier) |*", "2D Sinusoid |*", "AS2DRoPE |*"),
    *("RoPE mixed |*", "ALiBi 2D |*"),
)
PLAN = (
    Part("Three-Cell, 7x7: five encoders", "table4", FIVE, 5),
    Part("Three-Cell, 7x7: eight more, and a CNN", "table4", OTHERS, 3),
    Part("What LOOPE's generator sees", "inputs", ("LOOPE*",), 3),
    Part("Frequency sets", "table6", (), 3),
    Part("Pets: 1D encoders, and the model's own table", "table1", ("Oxford-IIIT / ViT-Base*",), 2),
    Part(
        "Pets: other encoders",
        "table2",
        ("2D sin/cos | Oxford-IIIT", "LFF* | Oxford-IIIT", "CPE | Oxford-IIIT", "AS2DRoPE | Oxford-IIIT"),
        2,
    ),
    Part("Three-Cell, 14x14, four times as long", "table4", ("*, 14x14 |*",), 1, epochs=40),
)
PAIRS = (("LOOPE", "Static"), ("LOOPE", "1D Sinusoid"), ("LOOPE", "2D sin/cos"), ("Static", "1D Sinusoid"))


def plan() -> str:
    """How far each part is."""
    lines = ["| part | runs | done | minutes of training a run, so far |", "|---|---:|---:|---:|"]
    for part in PLAN:
        runs = {run.key: run for run in part.runs()}.values()
        results = [result for run in runs if (result := read_result(folder_of(run, RUNS)))]
        spent = sum(result["training_seconds"] for result in results) / 60
        lines.append(
            f"| {part.what} | {len(runs)} | {len(results)} | {f'{spent / len(results):.1f}' if results else '-'} |"
        )
    return "\n".join(lines)


def commands() -> str:
    """A command for each part."""
    return "\n".join(["```console", *(part.command() for part in PLAN), "```"])


def differences(name: str, metric: str) -> str:
    """One encoder less another, seed by seed, in points."""
    by_row: dict[str, dict[int, float]] = {}
    for row, result in finished(name):
        by_row.setdefault(row, {})[result["run"]["seed"]] = 100 * result["metrics"][metric]
    lines = ["| difference | points | seeds | told apart |", "|---|---:|---:|---|"]
    for one, other in PAIRS:
        if by_row.get(one, {}).keys() & by_row.get(other, {}).keys():
            found = paired(by_row[one], by_row[other])
            known = found.n > 1
            half, verdict = f" ± {found.half:.1f}" if known else "", "no"
            if known and abs(found.mean) > found.half:
                verdict = f"yes: {one if found.mean > 0 else other} is better"
            lines.append(f"| {one} - {other} | {found.mean:+.1f}{half} | {found.n} | {verdict} |")
    return "\n".join(lines)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    (PAGE, "plan"): plan,
    (PAGE, "commands"): commands,
    (PAGE, "table4"): partial(beside_published, "table4"),
    (PAGE, "differences"): partial(differences, "table4", "average"),
    (PAGE, "table1"): partial(beside_published, "table1"),
}
