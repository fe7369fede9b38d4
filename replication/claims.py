"""The paper's claims and what the replication's runs say to them."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from loope.lab.experiments.statistics import rank_correlation, rank_interval
from loope.lab.experiments.table import get_table
from loope.lab.experiments.tables import alignment, table1, table4, table6
from replication.plan import COMPARED
from replication.results import by_seed, finished, table
from replication.rules import (
    OPEN,
    QUESTIONS,
    Claim,
    Source,
    aligned,
    better,
    constant_answers,
    encoder_means,
    frequencies,
    living,
    on_three_cell,
    relative_near_chance,
)

PETS = "Oxford-IIIT / ViT-Base"
PUBLISHED_ROWS = tuple(row for row in table4.PUBLISHED if row in {*COMPARED, "No PE"})
LEFT_OUT = tuple(row for row in COMPARED if row not in table4.PUBLISHED)


class Judged(NamedTuple):
    """A claim, what was found on it, and whether it holds."""

    claim: str
    published: str
    found: str
    verdict: str
    smallest: str
    ours: bool


def replicated() -> Source:
    """The replication's runs."""
    return Source(cache(by_seed), lambda: constant_answers(next(finished("table4"))[1]))


def judged(claims: Sequence[Claim] | None = None) -> list[Judged]:
    """Return claims, by default all, judged by the replication's runs."""
    source, found = replicated(), []
    for claim in all_claims() if claims is None else claims:
        told, verdict, smallest = claim.test(source)
        found.append(Judged(claim.claim, claim.published, told + claim.note, verdict, smallest, claim.ours))
    return found


def all_claims() -> list[Claim]:
    """Return the claims in the order of the page."""
    average = {row: f"{line[-1]}" for row, line in table4.PUBLISHED.items()}
    pets = dict(zip(table1.COLUMNS, table1.PUBLISHED["Oxford-IIIT"]["ViT-Base"], strict=True))
    columns = table6.COLUMNS[:2]
    encoders = [entry.row for entry in get_table("alignment").entries("laptop")]
    return [
        *(
            better(
                f"LOOPE beats {other} (Three-Cell)",
                f"{average['LOOPE']} against {average[other]}",
                "table4",
                on_three_cell("LOOPE", [other]),
                living("table4", "LOOPE"),
            )
            for other in ("Static", "1D Sinusoid")
        ),
        better(
            "the same of a generator that cannot start dead (GELU) against Static",
            "no such run",
            "inputs",
            on_three_cell("LOOPE, GELU", ["Static"]),
            living("inputs", "LOOPE, GELU"),
        )._replace(ours=True),
        *(
            better(
                f"LOOPE beats {other} (Pets)",
                f"{pets['LOOPE']} against {pets[other]}",
                "table1",
                {"": ((PETS, "LOOPE"), (PETS, other))},
            )
            for other in ("Static", "1D Sinusoid")
        ),
        better(
            "LOOPE is the best of Table 1's encoders (Pets)",
            f"{pets['LOOPE']}, the next {max(pets[other] for other in table1.COLUMNS[:-1])}",
            "table1",
            {f"minus {other}:": ((PETS, "LOOPE"), (PETS, other)) for other in table1.COLUMNS[:-1]},
        ),
        better(
            "LOOPE is the best of Table 4's encoders (Three-Cell)",
            f"{average['LOOPE']}, the next {average['LFF (Fourier)']} (LFF)",
            "table4",
            on_three_cell("LOOPE", PUBLISHED_ROWS),
        ),
        better(
            "and better than encoders that Table 4 does not name",
            "not compared",
            "table4",
            on_three_cell("LOOPE", LEFT_OUT),
        )._replace(ours=True),
        better(
            "Coordinates drive LOOPE's gain",
            f"coordinates only 93.7, RGB only 92.2, static {average['Static']} (means of the four questions)",
            "inputs",
            on_three_cell("LOOPE (coordinates only)", ["Static", "LOOPE (RGB only)"]),
            living("inputs", "LOOPE (RGB only)", " of RGB only"),
        ),
        better(
            "RGB and coordinates together are best",
            f"{average['LOOPE']}, coordinates only 93.7, RGB only 92.2",
            "inputs",
            on_three_cell("LOOPE (RGB + coordinates)", ["LOOPE (coordinates only)", "LOOPE (RGB only)"]),
            living("inputs", "LOOPE (RGB only)", " of RGB only"),
        ),
        frequencies(),
        better(
            "LOOPE is the best with every frequency set (Three-Cell for Pets)",
            "all four sets",
            "table6",
            {f"{row}, minus {other}:": ((row, "LOOPE"), (row, other)) for row in table6.SETS for other in columns},
        ),
        better(
            "the geometric set beats the original for all encoders (Three-Cell for Pets)",
            " against ".join(str(table6.PUBLISHED[row]).strip("()") for row in ("Geometric", "Original")),
            "table6",
            {f"{column}:": (("Geometric", column), ("Original", column)) for column in table6.COLUMNS},
        ),
        better(
            "RPE beats No PE", f"{average['RPE']} against {average['No PE']}", "table4", on_three_cell("RPE", ["No PE"])
        ),
        relative_near_chance(),
        better(
            "absolute encodings (1D sinusoid, LFF) beat RPE on every question",
            "by 17 points or more",
            "table4",
            {
                f"{row}, {column.lower()}:": ((row, column), ("RPE", column))
                for row in ("1D Sinusoid", "LFF (Fourier)")
                for column in QUESTIONS
            },
        ),
        *(aligned(accuracy, score, encoders) for accuracy, score in alignment.PAIRS.items()),
    ]


def in_bold(verdict: str, smallest: str) -> str:
    """Return a verdict, and the smallest effect that would probably have been found if none was."""
    return f"**{verdict}**" + (f"; 80 % power at {smallest}" if verdict == OPEN and smallest != "-" else "")


def correlations() -> str:
    """How PESI goes with accuracy, over all encoders and over those that the budget was long enough for."""
    rows = []
    averages = encoder_means("Average", table="table4")["Average"]
    for accuracy, score in alignment.PAIRS.items():
        means = encoder_means(score, accuracy)
        learned = means[averages[means.index] > 80]
        for words, some in {"all": means, "that end above 80 %": learned}.items():
            if len(some) > 3:
                what = f"{score}, {accuracy.lower()} accuracy"
                rows.append((what, f"{len(some)}, {words}", *correlation(some[score], some[accuracy])))
    return table(("rank correlation", "encoders", "", "95 % interval"), rows, texts=2)


def correlation(x: Sequence[float], y: Sequence[float]) -> tuple[str, str]:
    """Return Spearman's correlation and its interval, formatted for a table."""
    found = rank_correlation(x, y)
    low, high = rank_interval(found, len(x))
    return f"{found:+.2f}", f"{low:+.2f} to {high:+.2f}"


TABLES: dict[str, Callable[[], str]] = {"correlations": correlations}
