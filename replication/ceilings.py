"""Whether the study's recipe does what it was chosen for: encoders that can answer Three-Cell learn to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from loope.encoders import encoder_class
from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables.encoders import ROWS
from replication import study
from replication.results import table

BOUND, WANTED = 90.0, 80.0  # an encoder whose ceiling is above the first should end above the second
# Best possible average on 7x7 of what an encoder tells, in percent: docs/results/plateau.md.
NOTHING, UNORDERED, SYMMETRIC, BUCKETS, RELATIVE, NEIGHBOURS, ALL = 56.1, 71.7, 80.3, 90.8, 92.1, 96.7, 100.0
CEILINGS = {
    "none": NOTHING,
    "sincos2d_sum": UNORDERED,
    "alibi2d": SYMMETRIC,
    "fire2d": SYMMETRIC,
    "irpe": BUCKETS,
    "peg": NEIGHBOURS,
}


class Ending(NamedTuple):
    """Ceiling of a row, average on validation at the end of each seed, and number of seeds planned; in percent."""

    ceiling: float
    ends: list[float]
    planned: int

    @property
    def learned(self) -> str:
        """Whether it ends above 80 %, if its ceiling asks for that."""
        if not self.ends:
            return "not run"
        if self.ceiling <= BOUND:
            return "not asked"
        above = sum(end > WANTED for end in self.ends)
        return "yes" if above == len(self.ends) else f"in {above} of {len(self.ends)} seeds"


def ceiling(name: str) -> float:
    """Return the best possible average on 7x7 of a model that knows what an encoder tells of positions."""
    relative = not {"additive", "conditional"} & set(encoder_class(name).kinds())
    return CEILINGS.get(name, RELATIVE if relative else ALL)


def endings() -> dict[str, Ending]:
    """Return the row of each encoder on 7x7."""
    done, seeds = study.results(), study.seeds_done("encoders")
    found = {}
    for entry in get_table("encoders").entries("laptop"):
        if entry.row in ROWS:
            planned = seeds[entry.row][1]
            keys = (entry.run.with_seed(seed).key for seed in range(planned))
            ends = [100 * done[key]["history"][-1]["metrics"]["average"] for key in keys if key in done]
            found[entry.row] = Ending(ceiling(entry.run.encoder.name), ends, planned)
    return found


def criterion() -> str:
    """Return the table of ceilings and endings."""
    rows = []
    for row, each in endings().items():
        mean = f"{sum(each.ends) / len(each.ends):.1f}" if each.ends else "-"
        lowest = f"{min(each.ends):.1f}" if each.ends else "-"
        seeds = f"{len(each.ends)} of {each.planned}"
        rows.append((row, f"`{ROWS[row][0]}`", f"{each.ceiling:.1f}", mean, lowest, seeds, each.learned))
    heads = ("row", "encoder", "ceiling, %", "validation, mean, %", "lowest seed", "seeds", "above 80 %")
    return table(heads, rows, texts=2)


def criterion_answer() -> str:
    """Return in a sentence whether the recipe does it."""
    found = endings()
    asked = {row: each for row, each in found.items() if each.ceiling > BOUND}
    run = {row: each for row, each in asked.items() if each.ends}
    short = [row for row, each in run.items() if each.learned != "yes"]
    missing = len(asked) - len(run)
    said = f"all {len(run)}" if not short else f"{len(run) - len(short)} of {len(run)}"
    return (
        f"Of {len(asked)} rows whose ceiling is above 90 %, {said} that were run end above 80 % with every seed"
        + (f" (not: {', '.join(short)})" if short else "")
        + (f"; {missing} were not run yet." if missing else ".")
    )


TABLES: dict[str, Callable[[], str]] = {"criterion": criterion, "criterion-answer": criterion_answer}
