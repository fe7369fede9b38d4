"""What a table of the paper is: runs, where their numbers go, and the numbers that were published."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch

from loope.core.errors import one_of, require, unknown
from loope.lab.experiments.spec import Run

Values = Mapping[str, Mapping[str, float]]  # row -> column -> number
PRESETS = ("smoke", "laptop", "paper")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run (for each seed) and the cells that it fills.

    Args:
        row: the row it belongs to.
        run: what to do; seeds are added later.
        cells: column -> name of the run's metric.
    """

    row: str
    run: Run
    cells: Mapping[str, str]

    @property
    def label(self) -> str:
        """What `--only` compares with: row and columns in words."""
        return f"{self.row} | {', '.join(self.cells)}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: its head, what our metric is multiplied by (100 to show percent), decimals, whether most is best."""

    head: str
    scale: float = 100.0
    digits: int = 1
    best: bool = True


def percent(*heads: str) -> tuple[Column, ...]:
    """Columns of accuracies."""
    return tuple(Column(head=head) for head in heads)


@dataclass(frozen=True, kw_only=True)
class Derived:
    """Rows that are computed from the others.

    Args:
        compute: our means, row -> column -> number as measured, and the preset, to the rows; what cannot be computed
            is left out.
        published: what the paper printed in them.
        digits: decimals shown.
    """

    compute: Callable[[Values, str], Values]
    published: Values
    digits: int


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its runs under each preset, its layout, and what the paper printed in it.

    Args:
        name: what one types.
        title: what it shows.
        columns: in the paper's order, ours behind.
        entries: preset -> its entries, in the order of the rows.
        published: row -> column -> the paper's number, as it is shown.
        across: whether the best is looked for along a row, among encoders, rather than down a column.
        notes: preset -> what a reader must know about it.
        derived: rows computed from the others.
        plots: names of the drawings that belong to the report.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    entries: Callable[[str], list[Entry]]
    published: Values
    across: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    derived: Derived | None = None
    plots: tuple[str, ...] = ()

    def select(self, preset: str, *only: str) -> list[Entry]:
        """The entries of a preset whose label, model or encoder fits one of the patterns (`*` and `?`, any case).

        Raises:
            LoopeError: for an unknown preset, or a pattern that fits nothing.
        """
        one_of("preset", preset, PRESETS)
        entries = self.entries(preset)
        labels = "\n  ".join(entry.label for entry in entries)
        for pattern in only:
            fits = any(_fits(entry, pattern) for entry in entries)
            require(fits, f"Nothing in {self.name} fits --only {pattern!r}. Its entries:\n  {labels}")
        return [entry for entry in entries if not only or any(_fits(entry, pattern) for pattern in only)]

    def with_epochs(self, epochs: int | None) -> Table:
        """The same table with runs of another length; as it is for None."""
        if epochs is None:
            return self
        return replace(
            self,
            name=f"{self.name}-{epochs}-epochs",
            entries=lambda preset: [replace(each, run=each.run.with_epochs(epochs)) for each in self.entries(preset)],
        )

    def narrowed(self, *only: str) -> Table:
        """The same table with the entries that fit one of the patterns; as it is without any.

        Its name says that it is a part, so that its report does not take the place of the whole one's.
        """
        if not only:
            return self
        return replace(self, name=f"{self.name}-part", entries=lambda preset: self.select(preset, *only))


def _fits(entry: Entry, pattern: str) -> bool:
    run = entry.run
    texts = (entry.label, entry.row, run.name, run.encoder.name, run.model.name, run.data.name)
    return any(fnmatch(text.lower(), pattern.lower()) or pattern.lower() in text.lower() for text in texts)


def table_names() -> list[str]:
    """The tables there are, by the names of their files."""
    from loope.lab.experiments import tables

    names = [module.name for module in pkgutil.iter_modules(tables.__path__)]
    return sorted(names, key=lambda name: (not name.startswith("table"), name))


def get_table(name: str) -> Table:
    """A table by name.

    Raises:
        LoopeError: for an unknown name, with those there are.
    """
    if name not in table_names():
        raise unknown("table", name, table_names())
    found: Table = importlib.import_module(f"loope.lab.experiments.tables.{name}").TABLE
    return found
