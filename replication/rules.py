"""How a claim of the paper is judged: rules of when six runs were done, revised when thirteen were."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pandas import DataFrame, Series

from loope.lab.experiments.statistics import Difference, holm, over_seeds, paired, rank_correlation, rank_interval
from loope.lab.experiments.tables import table4, table6
from loope.three_cell.bits import by_task
from replication.plan import chance, in_points
from replication.power import detectable, detectable_correlation
from replication.results import by_seed, finished

LEVEL = 0.05
CLOSE = 25.0  # points above a constant answer that are still "close to chance"; the published are 18 and 16 above
HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive"
LIVES = 1e-3  # X_C's deviation over images from which on a generator sees them
QUESTIONS = ("Distance", "Orientation", "Area", "Vector sum")
Cell = tuple[str, str]  # row, column


class Found(NamedTuple):
    """What was found on a claim, whether it holds, and the smallest effect that would probably have been found."""

    told: str
    verdict: str
    smallest: str


class Source(NamedTuple):
    """Where numbers come from: `cells(table)` by (row, column, seed), and what a constant answer scores."""

    cells: Callable[[str], Series[float]]
    constant: Callable[[], dict[str, float]]


class Claim(NamedTuple):
    """What the paper says, or we ask beyond it.

    Attributes:
        claim: the claim.
        published: the published numbers.
        table: the table whose rows it compares.
        rows: these rows.
        test: judges it by runs of one recipe.
        note: what else is told of the replication's runs.
        ours: whether we ask it.
    """

    claim: str
    published: str
    table: str
    rows: tuple[str, ...]
    test: Callable[[Source], Found]
    note: str = ""
    ours: bool = False


def judge(differences: Sequence[Difference]) -> str:
    """Whether all differences are above zero, as is claimed: each must be, and one that is surely below refutes.

    "All" needs no correction (each part must pass on its own); "one of them" does, for their number.
    """
    if all(found.mean > 0 and found.p < LEVEL for found in differences):
        return HOLDS
    corrected = holm([1.0 if math.isnan(found.p) else found.p for found in differences])
    refuted = any(found.mean < 0 and p < LEVEL for found, p in zip(differences, corrected, strict=True))
    return FAILS if refuted else OPEN


def better(claim: str, published: str, table: str, pairs: Mapping[str, tuple[Cell, Cell]], note: str = "") -> Claim:
    """A claim that the first cell of each pair is above the second; the pair's name is what is told of it."""

    def test(source: Source) -> Found:
        cells = source.cells(table)
        return compare({name: paired(cells[one], cells[other]) for name, (one, other) in pairs.items()})

    rows = dict.fromkeys(row for pair in pairs.values() for row, _ in pair)
    return Claim(claim, published, table, tuple(rows), test, note)


def compare(found: Mapping[str, Difference], digits: int = 1) -> Found:
    """Judge differences that are claimed to be above zero."""
    told = "; ".join(f"{name} {in_words(each, digits)}".strip() for name, each in found.items())
    smallest = [detectable(each.half, each.n) for each in found.values()]
    return Found(told, judge(list(found.values())), in_digits(smallest, digits))


def in_digits(smallest: Sequence[float], digits: int) -> str:
    """Return the smallest effects of a claim's parts, from the least to the largest."""
    known = sorted(f"{effect:.{digits}f}" for effect in smallest if not math.isnan(effect))
    return " to ".join(dict.fromkeys((min(known, key=float), max(known, key=float)))) if known else "-"


def on_three_cell(one: str, others: Sequence[str]) -> dict[str, tuple[Cell, Cell]]:
    """Compare the average of an encoder with that of others."""
    alone = len(others) == 1
    return {"" if alone else f"minus {other}:": ((one, "Average"), (other, "Average")) for other in others}


def living(table: str, variant: str, of_which: str = "") -> str:
    """In how many seeds LOOPE's generator, or that of a variant, sees the image."""
    sizes = [result["metrics"]["offset_over_images"] for row, result in finished(table) if row == variant]
    return f"; X_C{of_which} depends on the image in {sum(size > LIVES for size in sizes)} of {len(sizes)} seeds"


def frequencies() -> Claim:
    """LOOPE's sensitivity to the frequency set is below that of the two others."""
    claim = "LOOPE is least sensitive to frequencies (Three-Cell for Pets)"
    published = "0.0052; 1D sinusoid 0.0278; static 0.0225, which does not follow from its accuracies"

    def test(_: Source) -> Found:
        found, columns = sensitivities(), table6.COLUMNS[:2]
        return compare({f"{column} minus LOOPE:": paired(found[column], found["LOOPE"]) for column in columns}, 4)

    return Claim(claim, published, "table6", tuple(table6.SETS), test)


def on_frequencies(default: bool = False) -> dict[Cell, Series[float]]:
    """Table 6, or what it would be if the paper's *Original* were the encoders' default, which Table 4 has."""
    cells, usual = by_seed("table6"), by_seed("table4")
    found = {(row, column): cells[row, column] for row in table6.SETS for column in table6.COLUMNS}
    return found | ({("Original", column): usual[column, "Average"] for column in table6.COLUMNS} if default else {})


def sensitivities(default: bool = False) -> DataFrame:
    """How much accuracy moves with the frequency set: a line for each seed, a column for each encoder."""
    cells, width = on_frequencies(default), table6.width("laptop")
    names = list((table6.sets("laptop") | ({"Original": "vaswani"} if default else {})).values())
    found = {}
    for column in table6.COLUMNS:
        outputs = DataFrame({row: cells[row, column] / 100 for row in table6.SETS}).dropna()
        found[column] = outputs.apply(lambda each: table6.sensitivity(each.tolist(), names, width), axis=1)
    return DataFrame(found)


def relative_near_chance() -> Claim:
    """The relative encoding scores at most 25 points more than a constant answer, on area and on vector sum."""
    claim = "RPE stays close to chance on area and vector sum"
    published = " and ".join(map(str, table4.PUBLISHED["RPE"][2:4]))

    def test(source: Source) -> Found:
        cells, constant = source.cells("table4"), source.constant()
        scores = {column: over_seeds(cells["RPE", column]) for column in QUESTIONS[2:]}
        told = "; ".join(
            f"{column} {each.mean:.1f}{plus_minus(each.half)}, a constant {constant[column]:.1f}"
            for column, each in scores.items()
        )
        above = [each.mean - constant[column] - CLOSE for column, each in scores.items()]
        halves = [each.half for each in scores.values()]
        holds = all(mean + half < 0 for mean, half in zip(above, halves, strict=True))
        refuted = any(mean - half > 0 for mean, half in zip(above, halves, strict=True))
        smallest = in_digits([detectable(each.half, each.n) for each in scores.values()], 1)
        return Found(told, HOLDS if holds else FAILS if refuted else OPEN, smallest)

    return Claim(claim, published, "table4", ("RPE",), test)


def constant_answers(result: Mapping[str, Any]) -> dict[str, float]:
    """What the best constant answer scores on a run's test part, from how often each bit is set in it."""
    bits = result["details"]["confusion"]
    rates = by_task([max(map(sum, bit)) / sum(map(sum, bit)) for bit in bits])
    return {"Area": 100 * rates["area"], "Vector sum": 100 * rates["vector_sum"]}


def aligned(accuracy: str, score: str, rows: Sequence[str]) -> Claim:
    """Over encoders, the score's rank goes with that of the accuracy."""
    claim, published = f"{score} goes with {accuracy.lower()} accuracy", "5 encoders, whose rank correlation is 0.7"

    def test(source: Source) -> Found:
        means = over_encoders(source.cells("alignment"), score, accuracy)
        correlation = rank_correlation(means[score], means[accuracy])
        low, high = rank_interval(correlation, len(means))
        told = f"{correlation:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}, over {len(means)} encoders"
        verdict = HOLDS if low > 0 else FAILS if high < 0 else OPEN
        return Found(told, verdict, in_digits([detectable_correlation(len(means))], 2))

    return Claim(claim, published, "alignment", tuple(rows), test)


def over_encoders(cells: Series[float], *columns: str) -> DataFrame:
    """Means over seeds of these columns: a line for each encoder that has all."""
    return cells.groupby(["row", "column"]).mean().unstack()[list(columns)].dropna()


def encoder_means(*columns: str, table: str = "alignment") -> DataFrame:
    """Means over the replication's seeds of these columns of a table: a line for each encoder that has all."""
    return over_encoders(by_seed(table), *columns)


def in_words(found: Difference, digits: int = 1) -> str:
    """A difference with its interval, the seeds it is of, and its p."""
    count = f"{found.n} seed" + "s" * (found.n > 1)
    if found.n > 1 and found.mean == found.half == 0:  # there is nothing to test
        return f"the same score in all {count}"
    return f"{in_points(found, digits)} ({count}" + ("" if math.isnan(found.p) else f", p {chance(found.p)}") + ")"


def plus_minus(half: float) -> str:
    """Half an interval, if there is one."""
    return "" if math.isnan(half) else f" ± {half:.1f}"
