"""What was measured of each encoder, gathered from results, benchmarks and the tables of other pages."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from loope.core.grid import Grid
from loope.encoders.describe import Description, describe, grouped
from loope.lab.experiments.statistics import Mean, over_seeds
from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables import swap
from loope.lab.experiments.tables.encoders import GRIDS, ROWS
from replication import study, transfer

ENOUGH = 3  # seeds
DOCS = Path(__file__).parents[1] / "docs"
OWN_SIZE = 224


class Kept(NamedTuple):
    """Top-1 in percent of a pretrained model without training, what it has more than with its own table, +- half."""

    top1: float
    more: float
    half: float

    @property
    def no_loss(self) -> bool:
        """Whether the interval of the difference reaches zero."""
        return self.more + self.half >= 0


class Measured(NamedTuple):
    """What is known of an encoder; None or empty where nothing was measured.

    Attributes:
        what: its description: kind, parameters, what it works with.
        scores: average on Three-Cell, 7x7, of each seed, in percent.
        planned: number of seeds planned.
        grids: side of another grid -> average there, without training.
        pets: seed -> top-1 on Pets after a swap and fine-tuning, in percent.
        at_once: top-1 of a pretrained model with it in place of its own encoding, without training.
        handed_over: steps of the longest hand-over, and top-1 after it.
        m_u: PESI's M_U, untrained, 14x14.
        m_d: its M_D, in percent of what is possible.
        training: time of a training step relative to the model's own table.
        inference: the same of inference.
    """

    what: Description
    scores: list[float]
    planned: int
    grids: dict[int, Mean]
    pets: dict[int, float]
    at_once: float | None
    handed_over: tuple[int, float] | None
    m_u: float | None
    m_d: float | None
    training: float | None
    inference: float | None


class Evidence(NamedTuple):
    """All of it.

    Attributes:
        encoders: name -> what is known, by kind.
        sizes: encoder -> image size -> what a model keeps after a fit to its own table.
        own_at_once: top-1 of the model with its own table, on the photographs of `at_once`.
        own_pets: seed -> top-1 on Pets of the model with its own table.
    """

    encoders: dict[str, Measured]
    sizes: dict[str, dict[int, Kept]]
    own_at_once: float | None
    own_pets: dict[int, float]

    def with_enough_seeds(self) -> dict[str, Measured]:
        """Return the encoders that were run often enough to be compared."""
        return {name: each for name, each in self.encoders.items() if len(each.scores) >= ENOUGH}


def gather() -> Evidence:
    """Return what was measured of every encoder of the registry."""
    rows = {name: row for row, (name, options) in ROWS.items() if not options}
    cells, done = study.by_seed(get_table("encoders")), study.seeds_done("encoders")
    pets, pesi, times = _pets(), _pesi(), _times()
    found, own = _handed_over()
    encoders = {}
    for each in (each for group in grouped(describe(Grid(14, 14))).values() for each in group):
        row, at = rows.get(each.name, ""), found.get(each.name, {})
        longest = max(at, default=0)
        m_u, m_d = pesi.get(each.name, (None, None))
        training, inference = times.get(each.name, (None, None))
        columns = {side: (row, f"Average, {side}x{side}") for side in GRIDS}
        encoders[each.name] = Measured(
            what=each,
            scores=cells[row, "Average"].tolist() if (row, "Average") in cells else [],
            planned=done.get(row, (0, 0))[1],
            grids={side: over_seeds(cells[cell].tolist()) for side, cell in columns.items() if cell in cells},
            pets=pets.get(each.name, {}),
            at_once=at.get(0),
            handed_over=(longest, at[longest]) if longest else None,
            m_u=m_u,
            m_d=m_d,
            training=training,
            inference=inference,
        )
    return Evidence(encoders, _sizes(), own, pets.get("own", {}))


def _pets() -> dict[str, dict[int, float]]:
    """Return encoder -> seed -> top-1 after a swap, of the rows without options."""
    cells = study.by_seed(get_table("swap"))
    rows = {row: chosen.name for row, chosen in swap.ROWS.items() if not chosen.options}
    return {name: cells[row, swap.COLUMN].to_dict() for row, name in rows.items() if row in cells}


def _handed_over() -> tuple[dict[str, dict[int, float]], float | None]:
    """Return encoder -> steps -> top-1, and that of the own table on the same photographs."""
    found: dict[str, dict[int, float]] = {}
    own = None
    for each in transfer.results():
        if each["what"] == "hand-over":
            found.setdefault(each["encoder"], {})[each["steps"]] = 100 * each["top1"]
            own = 100 * each["own"]
    return found, own


def _sizes() -> dict[str, dict[int, Kept]]:
    found: dict[str, dict[int, Kept]] = {}
    for each in transfer.results():
        if each["what"] == "sizes":
            kept = Kept(*(100 * each[name] for name in ("top1", "more", "half")))
            found.setdefault(each["encoder"], {})[each["size"]] = kept
    return found


def _pesi() -> dict[str, tuple[float, float]]:
    """Return encoder -> M_U and the share of M_D, from the table of docs/pesi.md."""
    text = (DOCS / "pesi.md").read_text().split("<!-- pesi-14x14 -->")[1].split("<!-- /pesi-14x14 -->")[0]
    lines = re.findall(r"^\| `(\w+)` \| (\S+) \| \S+ \| ([\d.]+)% \|", text, re.MULTILINE)
    return {name: (float(m_u), float(share)) for name, m_u, share in lines}


def _times() -> dict[str, tuple[float, float]]:
    with (DOCS / "costs.csv").open(newline="") as file:
        return {row["encoder"]: (float(row["train"]), float(row["infer"])) for row in csv.DictReader(file)}
