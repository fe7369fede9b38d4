"""Tables of the paper: runs, layout and published numbers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch

from loope.core.errors import one_of, require, unknown
from loope.lab.experiments.spec import Run

Values = Mapping[str, Mapping[str, float]]  # row -> column -> number
PRESETS = ("smoke", "laptop", "paper")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run (for each seed) and the cells that it fills.

    Args:
        row: name of the row.
        run: the run; seeds are set later.
        cells: column -> name of the run's metric.
    """

    row: str
    run: Run
    cells: Mapping[str, str]

    @property
    def label(self) -> str:
        """Row and columns as text, matched by `--only`."""
        return f"{self.row} | {', '.join(self.cells)}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: header, factor on our metric (100 for percent), decimals, and whether to mark the highest."""

    head: str
    scale: float = 100.0
    digits: int = 1
    best: bool = True


def percent(*heads: str) -> tuple[Column, ...]:
    """Return columns of percentages."""
    return tuple(Column(head=head) for head in heads)


@dataclass(frozen=True, kw_only=True)
class Derived:
    """Rows computed from other rows.

    Args:
        compute: takes our means (row -> column -> number) and the preset, and returns the rows that can be computed.
        published: published numbers of these rows.
        digits: displayed decimals.
    """

    compute: Callable[[Values, str], Values]
    published: Values
    digits: int


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: runs of each preset, layout and published numbers.

    Args:
        name: name on the command line.
        title: title of the table.
        columns: the paper's columns, followed by ours.
        entries: returns the entries of a preset, in row order.
        published: row -> column -> published number, in the displayed unit.
        across: mark the best number of each row instead of each column.
        notes: preset -> note for the reader.
        derived: rows computed from other rows.
        plots: names of the figures of the report.
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
            LoopeError: for an unknown preset, or a pattern without matches.
        """
        one_of("preset", preset, PRESETS)
        entries = self.entries(preset)
        labels = "\n  ".join(entry.label for entry in entries)
        for pattern in only:
            fits = any(_fits(entry, pattern) for entry in entries)
            require(fits, f"Nothing in {self.name} fits --only {pattern!r}. Its entries:\n  {labels}")
        return [entry for entry in entries if not only or any(_fits(entry, pattern) for pattern in only)]

    def with_epochs(self, epochs: int | None) -> Table:
        """Return the table with another number of epochs; unchanged for None."""
        if epochs is None:
            return self
        return replace(
            self,
            name=f"{self.name}-{epochs}-epochs",
            entries=lambda preset: [replace(each, run=each.run.with_epochs(epochs)) for each in self.entries(preset)],
        )

    def with_images(self, classes: Sequence[str] | None, skip_bad_images: bool) -> Table:
        """Return the table with other photographs; see `Run.with_images`. A class list needs runs that use it."""

        def entries(preset: str) -> list[Entry]:
            found = self.entries(preset)
            require(
                classes is None or any(each.run.data.name == "imagenet100" for each in found),
                f"No run of {self.name} ({preset}) is on ImageNet-100; leave out --classes, or name another table.",
            )
            return [replace(each, run=each.run.with_images(classes, skip_bad_images)) for each in found]

        return replace(self, entries=entries)

    def narrowed(self, *only: str) -> Table:
        """Return the table with only the entries that match a pattern; unchanged without patterns.

        It gets another name, so that its report does not overwrite that of the whole table.
        """
        if not only:
            return self
        return replace(self, name=f"{self.name}-part", entries=lambda preset: self.select(preset, *only))


def _fits(entry: Entry, pattern: str) -> bool:
    run = entry.run
    texts = (entry.label, entry.row, run.name, run.encoder.name, run.model.name, run.data.name)
    return any(fnmatch(text.lower(), pattern.lower()) or pattern.lower() in text.lower() for text in texts)


def table_names() -> list[str]:
    """Return the names of all tables."""
    from loope.lab.experiments import tables

    names = [module.name for module in pkgutil.iter_modules(tables.__path__)]
    return sorted(names, key=lambda name: (not name.startswith("table"), name))


def get_table(name: str) -> Table:
    """Return a table by name.

    Raises:
        LoopeError: for an unknown name.
    """
    if name not in table_names():
        raise unknown("table", name, table_names())
    found: Table = importlib.import_module(f"loope.lab.experiments.tables.{name}").TABLE
    return found
