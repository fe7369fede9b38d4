"""Static against refined positions: the questions of docs/results/plateau.md, judged by the rules written there.

The rules were written before a refined encoder was run with the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pandas import Series

from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables import swap
from loope.lab.experiments.tables.refined import BASES, GENERATORS, variants
from replication import study
from replication.power import Interval, detectable_shift, paired_interval, welch_interval
from replication.results import table

SEEDS = 5
STATIC, COORDINATES = "static", "coordinates only"
MOVED = tuple(name for name in GENERATORS if name != STATIC)
SEEING = tuple(name for name in MOVED if name != COORDINATES)  # the image
BASELINES = ("2D sin/cos", "RoPE mixed")
# Rows of the table `swap` whose positions are refined, and the static ones that they refine.
ON_PETS = {
    "LOOPE": "Static",
    "LOOPE, convolution mixer": "Static",
    "2D sin/cos, refined": "2D sin/cos",
}
HELPS, HURTS, OPEN, WAITING = "helps", "hurts", "inconclusive", "not judged yet"
YES, NO = "yes", "no"
Scores = Mapping[str, Mapping[int, float]]  # row -> seed -> average in percent


class Pair(NamedTuple):
    """A comparison on one base: what was found, over how many seeds, and the verdict; no interval before all seeds."""

    found: Interval | None
    seeds: int
    verdict: str


def scores(part: str = "test") -> dict[str, dict[int, float]]:
    """Return row -> seed -> average on the test or the validation part, in percent, of the last weights."""
    done = study.results()
    rows: dict[str, dict[int, float]] = {}
    for entry in get_table("refined").entries("laptop"):
        for seed in range(SEEDS):
            result = done.get(entry.run.with_seed(seed).key)
            if result:
                metrics = result["metrics"] if part == "test" else result["history"][-1]["metrics"]
                rows.setdefault(entry.row, {})[seed] = 100 * metrics["average"]
    return rows


def does_it_help(found: Scores) -> dict[tuple[str, str], Pair]:
    """Compare every generator with the static positions of each base."""
    return _compare(found, MOVED, STATIC)


def is_it_the_image(found: Scores) -> dict[tuple[str, str], Pair]:
    """Compare every generator that sees the image with one that sees coordinates only, on each base."""
    return _compare(found, SEEING, COORDINATES)


def _compare(found: Scores, generators: Iterable[str], other: str) -> dict[tuple[str, str], Pair]:
    return {
        (base, generator): _pair(
            found.get(f"{base}, {generator}", {}), found.get(f"{base}, {other}", {}), len(_bases(generator))
        )
        for generator in generators
        for base in _bases(generator)
    }


def _bases(generator: str) -> list[str]:
    """Return the bases of a generator; the comparisons on these are corrected together."""
    return [base for base, name in variants() if name == generator]


def _pair(ones: Mapping[int, float], others: Mapping[int, float], tests: int) -> Pair:
    differences = _differences(ones, others)
    if len(differences) < SEEDS:
        return Pair(None, len(differences), WAITING)
    interval = paired_interval(differences, tests)
    return Pair(interval, SEEDS, HELPS if interval.low > 0 else HURTS if interval.high < 0 else OPEN)


def _differences(ones: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    """Return the difference of each seed that both have."""
    return [ones[seed] - others[seed] for seed in sorted(ones.keys() & others.keys())]


def _moved() -> list[str]:
    """Return the rows of all refined variants."""
    return [f"{base}, {generator}" for base, generator in variants() if generator != STATIC]


class Best(NamedTuple):
    """The refined variant that is best on validation, what it has more than each baseline on test, and the verdict."""

    variant: str
    found: dict[str, Interval]
    verdict: str


def is_it_worth_it(test: Scores, validation: Scores) -> Best | None:
    """Compare the best refined variant with the baselines; None before all refined variants have all seeds."""
    moved = _moved()
    baselines = {base: f"{base}, {STATIC}" for base in BASELINES}
    if any(len(test.get(row, {})) < SEEDS for row in (*moved, *baselines.values())):
        return None
    best = max(moved, key=lambda row: sum(validation[row].values()))
    ones = list(test[best].values())
    found = {base: welch_interval(ones, list(test[row].values())) for base, row in baselines.items()}
    above, below = (all(each.low > 0 for each in found.values()), any(each.high < 0 for each in found.values()))
    return Best(best, found, YES if above else NO if below else OPEN)


def answers() -> str:
    """Return the answers to the three questions, in a line each."""
    test = scores()
    best = is_it_worth_it(test, scores("validation"))
    lines = [
        f"- **Does looking at the image help a base?** {_counted(does_it_help(test))}",
        f"- **Is it the image?** {_counted(is_it_the_image(test))}",
    ]
    if best is None:
        moved = _moved()
        ready = sum(len(test.get(row, {})) == SEEDS for row in moved)
        told = f"Not judged yet: {ready} of {len(moved)} refined variants have all seeds."
    else:
        parts = "; ".join(f"minus {base} {in_interval(each)}" for base, each in best.found.items())
        told = f"**{best.verdict.capitalize()}**: the best on validation is *{best.variant}*, on test {parts}."
    return "\n".join([*lines, f"- **Is the best of it worth it?** {told}"])


def _counted(pairs: Mapping[tuple[str, str], Pair]) -> str:
    verdicts = [pair.verdict for pair in pairs.values()]
    counts = ", ".join(f"{verdicts.count(each)} *{each}*" for each in (HELPS, HURTS, OPEN, WAITING) if each in verdicts)
    named = ""
    for verdict in (HELPS, HURTS):
        bases = [base for (base, _), pair in pairs.items() if pair.verdict == verdict]
        if bases:
            shown = ", ".join(f"{base} {bases.count(base)}" for base in dict.fromkeys(bases))
            named += f" {verdict.capitalize()}, by base: {shown}."
    room = [pair.found.high for pair in pairs.values() if pair.found is not None and pair.verdict == OPEN]
    left = f" No inconclusive pair leaves room for a gain of more than {max(room):.1f} points." if room else ""
    return f"Of {len(verdicts)} pairs {counts}.{named}{left}"


def in_interval(found: Interval) -> str:
    """Format a difference and the ends of its interval."""
    return f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def pairs_table(pairs: Mapping[tuple[str, str], Pair]) -> str:
    """Return comparisons as a table: a row for each base, a column for each generator."""
    generators = list(dict.fromkeys(generator for _, generator in pairs))
    rows = [(base, *(_cell(pairs.get((base, generator))) for generator in generators)) for base in BASES]
    return table(("base", *generators), rows)


def _cell(pair: Pair | None) -> str:
    if pair is None:
        return "-"
    if pair.found is None:
        return f"{pair.seeds} of {SEEDS} seeds"
    return f"{in_interval(pair.found)} {f'**{pair.verdict}**' if pair.verdict != OPEN else OPEN}"


def means() -> str:
    """Return the average of every variant on the test part, with its seeds."""
    test, planned = scores(), variants()

    def cell(base: str, generator: str) -> str:
        found = test.get(f"{base}, {generator}")
        missing = "not run" if (base, generator) in planned else "-"
        return f"{Series(found).mean():.1f} ({len(found)})" if found else missing

    rows = [(base, *(cell(base, generator) for generator in GENERATORS)) for base in BASES]
    return table(("base", *GENERATORS), rows)


def on_pets(found: Scores) -> dict[str, Interval]:
    """Compare refined with static positions after a swap, corrected together; only pairs of at least two seeds."""
    pairs = {}
    for refined, static in ON_PETS.items():
        differences = _differences(found.get(refined, {}), found.get(static, {}))
        if len(differences) > 1:
            pairs[refined] = paired_interval(differences, len(ON_PETS))
    return pairs


def _on_pets() -> str:
    cells = study.by_seed(get_table("swap"))
    found = {row: cells[row, swap.COLUMN].to_dict() for row in {*ON_PETS, *ON_PETS.values()} if row in cells}
    told = "; ".join(f"{row} minus {ON_PETS[row]} {in_interval(each)}" for row, each in on_pets(found).items())
    return f"{told}." if told else "Not run yet."


def smallest() -> str:
    """Return how far, in standard errors, a true difference must be from zero to be found with 80 % power."""
    counts = sorted({len(_bases(generator)) for generator in MOVED}, reverse=True)
    return " and ".join(f"{detectable_shift(SEEDS, tests):.1f} ({tests} bases)" for tests in counts)


TABLES: dict[str, Callable[[], str]] = {
    "refined-answers": answers,
    "refined-means": means,
    "refined-against-static": lambda: pairs_table(does_it_help(scores())),
    "refined-against-coordinates": lambda: pairs_table(is_it_the_image(scores())),
    "refined-power": smallest,
    "refined-pets": _on_pets,
}
