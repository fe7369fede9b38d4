"""The paper's claims under the study's recipe, beside what the replication found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from loope.lab.experiments.statistics import over_seeds
from loope.lab.experiments.table import Entry, Table, get_table
from loope.lab.experiments.tables import alignment, table4
from replication import study
from replication.claims import Judged, all_claims, in_bold, judged
from replication.results import by_seed, table
from replication.rules import FAILS, HOLDS, OPEN, Claim, Found, Source, constant_answers, plus_minus

WAITING, ELSEWHERE = "not judged yet", "another experiment"
SHOWN = {
    "LOOPE": "LOOPE scores",
    "Static": "the fixed curve that it refines",
    "1D Sinusoid": "1D sinusoids",
    "2D sin/cos": "2D sin/cos",
}


class Again(NamedTuple):
    """A claim with its verdict in the replication and what the study found."""

    before: Judged
    now: Found


def counterparts() -> dict[str, Table]:
    """Return the study's table for each table of the replication that it runs again, with rows of the same names."""
    encoders, align = get_table("encoders"), get_table("alignment")

    def entries(preset: str) -> list[Entry]:
        rows = {entry.row for entry in align.entries(preset)}
        return [replace(entry, cells=alignment.METRICS) for entry in encoders.entries(preset) if entry.row in rows]

    return {"table4": encoders, "alignment": replace(align, entries=entries)}


def studied() -> Source:
    """The study's runs, under the names of the replication's tables."""
    tables = counterparts()
    return Source(
        cells=cache(lambda name: study.by_seed(tables[name])),
        constant=lambda: constant_answers(_any_on_7x7()),
    )


def _any_on_7x7() -> dict[str, dict[str, list[list[list[int]]]]]:
    return next(each for each in study.results().values() if each["run"]["data"]["options"]["grid"] == 7)


def again() -> list[Again]:
    """Return all claims, judged by both; nothing is judged before all planned runs of its rows are done."""
    source, done, claims = studied(), study.seeds_done("encoders"), all_claims()
    return [Again(before, _judge(claim, source, done)) for before, claim in zip(judged(claims), claims, strict=True)]


def _judge(claim: Claim, source: Source, done: Mapping[str, tuple[int, int]]) -> Found:
    if claim.table not in counterparts():
        return Found("", ELSEWHERE, "-")
    runs, planned = (sum(numbers) for numbers in zip(*(done[row] for row in claim.rows), strict=True))
    return claim.test(source) if runs == planned else Found(f"{runs} of {planned} runs", WAITING, "-")


def claims() -> str:
    """Return all claims, what the replication found, and both verdicts."""
    rows = (
        (
            _named(before),
            before.published,
            before.found,
            in_bold(before.verdict, before.smallest),
            "" if now.verdict == ELSEWHERE else now.verdict,
        )
        for before, now in again()
    )
    return table(("claim", "published", "here", "verdict", "[new recipe](study.md#claims)"), rows, texts=5)


def _named(claim: Judged) -> str:
    return f"{'(ours) ' * claim.ours}{claim.claim}"


def claims_again() -> str:
    """Return the claims that the study runs again, with both verdicts."""
    rows = (
        (
            _named(before),
            before.published,
            in_bold(before.verdict, before.smallest),
            now.told,
            in_bold(now.verdict, now.smallest),
        )
        for before, now in again()
        if now.verdict != ELSEWHERE
    )
    return table(("claim", "published", "replication", "under the new recipe", "verdict"), rows, texts=5)


def elsewhere() -> str:
    """Return the claims that the study has no runs for, with the replication's verdict."""
    rows = (
        (_named(before), in_bold(before.verdict, before.smallest))
        for before, now in again()
        if now.verdict == ELSEWHERE
    )
    return table(("claim", "replication"), rows, texts=2)


def counts() -> str:
    """Return how many of the paper's claims got each verdict, then and now."""
    some = [each for each in again() if not each.before.ours and each.now.verdict != ELSEWHERE]
    rows = []
    for name, found in (
        ("replication", [each.before.verdict for each in some]),
        ("new recipe", [each.now.verdict for each in some]),
    ):
        rows.append((name, *(f"{found.count(verdict)}" for verdict in (HOLDS, FAILS, OPEN, WAITING))))
    return table((f"{len(some)} claims of the paper", "hold", "do not hold", OPEN, WAITING), rows)


def summary() -> str:
    """Return what came out, in a few sentences for the README."""
    cells, found = by_seed("table4"), again()
    told, seeds = [], 0
    for row, words in SHOWN.items():
        mean, half, seeds = over_seeds(cells[row, "Average"])
        told.append(f"{words} {mean:.1f}{plus_minus(half)}")
    published = ", ".join(f"{table4.PUBLISHED[row][-1]}" for row in SHOWN if row in table4.PUBLISHED)
    verdicts = [each.before.verdict for each in found if not each.before.ours]
    kinds = {HOLDS: "hold at this scale", FAILS: "do not", OPEN: f"are {OPEN}"}
    counted = ", ".join(f"{verdicts.count(kind)} {words}" for kind, words in kinds.items())
    now = {each.before.claim: each.now.told for each in found}
    minus = {words: now[f"LOOPE beats {row} (Three-Cell)"] for row, words in list(SHOWN.items())[1:3]}
    return (
        f"On Three-Cell (7x7 cells, {seeds} seeds, percent with 95 % intervals) {', '.join(told)}; the paper has "
        f"{published} for the first three, with a larger model on 14x14. Of {len(verdicts)} claims of the paper "
        f"{counted}. By a [later recipe](docs/results/study.md), under which more encoders learn, LOOPE differs "
        f"from {' and from '.join(f'{words} by {told}' for words, told in minus.items())}."
    )


TABLES: dict[str, Callable[[], str]] = {
    "claims": claims,
    "claims-again": claims_again,
    "claims-elsewhere": elsewhere,
    "claims-counts": counts,
}
