"""Fill the pages' templates with tables and numbers: `python -m replication.page` writes all of `PAGES`."""

import re
from collections.abc import Callable
from pathlib import Path

from loope.core.errors import LoopeError, require
from loope.core.files import write_atomic
from loope.lab.experiments.statistics import paired
from loope.lab.experiments.table import get_table
from replication import (
    again,
    ceilings,
    claims,
    curves,
    figures,
    frequencies,
    generators,
    pets,
    plan,
    refined,
    which,
)
from replication.plan import LARGE_EPOCHS, in_points
from replication.results import by_seed, finished, read_runs, results_of
from replication.rules import FAILS, HOLDS, OPEN, in_words, sensitivities

HERE, DOCS = Path(__file__).parent, Path(__file__).parents[1] / "docs" / "results"
PAGES = {
    HERE / "page.md": DOCS / "replication.md",
    HERE / "details.md": DOCS / "replication-details.md",
    HERE / "study.md": DOCS / "study.md",
    HERE / "which.md": DOCS.parent / "which-encoding.md",
}
README = HERE.parent / "README.md"
IN_README: dict[str, Callable[[], str]] = {"replication": again.summary, "which": which.summary}
TABLES: dict[str, Callable[[], str]] = {
    **plan.TABLES,
    **claims.TABLES,
    **curves.TABLES,
    **frequencies.TABLES,
    **generators.TABLES,
    **pets.TABLES,
    **figures.TABLES,
    **again.TABLES,
    **ceilings.TABLES,
    **refined.TABLES,
    **which.TABLES,
}
# Runs on Pets with 1,332 images, before the preset was made smaller.
EARLY_PETS = {"own": "79cfe07e4b93", "sinusoid": "022048a97ac9", "loope": "c471f47fec49"}
OWN_TABLE = "0.47"  # root mean square of ViT-Tiny's own position table, whose file is not everywhere
COLUMNS = ("1D Sinusoid", "Static", "LOOPE")


def numbers() -> dict[str, str]:
    """Return the numbers of the text by name."""
    done, planned = plan.progress()
    require(
        done == planned, f"{planned - done} of {planned} planned runs are not done; see `replication.plan.commands`."
    )
    return {
        "runs": f"{planned}",
        **_verdicts(),
        **_three_cell(),
        **_frequencies(),
        **_large_grid(),
        **_pets(),
    }


def _verdicts() -> dict[str, str]:
    found = [claim.verdict for claim in claims.judged() if not claim.ours]
    counts = {"holds": HOLDS, "fails": FAILS, "open": OPEN}
    return {
        "claims-all": f"{len(found)}",
        **{f"claims-{name}": f"{found.count(each)}" for name, each in counts.items()},
    }


def _three_cell() -> dict[str, str]:
    cells, variants = by_seed("table4"), by_seed("inputs")
    mixer, usual = (variants[f"LOOPE{name}", "Average"] for name in (", convolution mixer", " (RGB + coordinates)"))
    return {
        "mixer-minus-loope": in_words(paired(mixer, usual)).lstrip("+"),
        "lff": f"{cells['LFF (Fourier)', 'Average'].mean():.1f}",
        "lff-divided": f"{cells['LFF / sqrt(F)', 'Average'].mean():.1f}",
    }


def _frequencies() -> dict[str, str]:
    means = by_seed("table6").groupby(["row", "column"]).mean()
    lost = [means["Random", column] - means["Geometric", column] for column in COLUMNS]
    found = sensitivities()
    ratios = found["1D Sinusoid"] / found["LOOPE"]
    ends, gaining = _ends("table6")
    low = ends["Geometric", "1D Sinusoid"]
    return {
        **{f"lost-{name}": f"{points:.1f}" for name, points in zip(("1d", "static", "loope"), lost, strict=True)},
        "ratio-low": f"{min(ratios):.1f}",
        "ratio-high": f"{max(ratios):.1f}",
        "geometric-low": f"{min(low):.0f}",
        "geometric-high": f"{max(low):.0f}",
        "gaining": f"{len(gaining)}",
        "gaining-1d": f"{gaining.count('1D Sinusoid')}",
    }


def _ends(name: str) -> tuple[dict[tuple[str, str], list[float]], list[str]]:
    """Return where runs end on validation, and the column of each that gains a point over the last five epochs."""
    ends: dict[tuple[str, str], list[float]] = {}
    gaining: list[str] = []
    for entry in get_table(name).entries("laptop"):
        (column,) = entry.cells
        for result in results_of(entry):
            averages = [100 * epoch["metrics"]["average"] for epoch in result["history"]]
            ends.setdefault((entry.row, column), []).append(averages[-1])
            gaining += [column] * (averages[-1] - averages[-6] > 1)
    return ends, gaining


def _large_grid() -> dict[str, str]:
    large = {row.removesuffix(", 14x14"): found["metrics"] for row, found in finished("table4", LARGE_EPOCHS)}
    above = {row: 100 * (large["LOOPE"]["average"] - scores["average"]) for row, scores in large.items()}
    cells = by_seed("table4")
    small = {row: paired(cells["LOOPE", "Average"], cells[row, "Average"]) for row in above if row != "LOOPE"}
    seeds = cells["LOOPE", "Average"] - cells["Static", "Average"]
    return {
        "large-below-2d": f"{-above['2D sin/cos']:.1f}",
        "large-below-1d": f"{-above['1D Sinusoid']:.1f}",
        "large-above-static": f"{above['Static']:.1f}",
        "small-below-2d": f"{-small['2D sin/cos'].mean:.1f}",
        "small-below-1d": f"{-small['1D Sinusoid'].mean:.1f}",
        "small-minus-static": in_points(small["Static"]),
        "small-static-low": f"{min(seeds):.1f}",
        "small-static-high": f"{max(seeds):.1f}",
    }


def _pets() -> dict[str, str]:
    scores = pets.by_encoder()
    spread = (scores.loc[1] - scores.loc[0]).std()  # what seeds do to all alike is no noise
    lead = scores.mean() - scores["LOOPE"].mean()
    early = {name: 100 * read_runs()[key]["metrics"]["top1"] for name, key in EARLY_PETS.items()}
    return {
        "own-table": OWN_TABLE,
        "pets-encoders": f"{len(lead)}",
        "pets-freedom": f"{len(lead) - 1}",
        "pets-spread": f"{spread:.1f}",
        "pets-lead": f"{lead['Learnable']:.1f}",
        "pets-errors": f"{lead['Learnable'] / (spread / 2**0.5):.1f}",
        "pets-lff-lead": f"{lead['LFF (Fourier)']:.0f}",
        **{f"early-{name}": f"{top1:.1f}" for name, top1 in early.items()},
    }


def render(template: Path) -> str:
    """Return a page.

    Raises:
        LoopeError: for a name in the template that nothing fills.
    """
    known = numbers()

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name in known:
            return known[name]
        if name in TABLES:
            return TABLES[name]()
        raise LoopeError(
            f"Nothing fills {{{{ {name} }}}} in {template.name}; use one of: {', '.join((*known, *TABLES))}."
        )

    return re.sub(r"\{\{ ([\w-]+) \}\}", fill, template.read_text())


def with_table(page: str, mark: str, table: str) -> str:
    """Replace the text between the marks of a page."""
    return re.sub(
        rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL
    )


def write() -> list[Path]:
    """Write the pages to the documents, the figure of the study, and the README's lines."""
    which.draw(DOCS.parent / "images")
    readme = README.read_text()
    for mark, made in IN_README.items():
        readme = with_table(readme, mark, made())
    write_atomic(README, readme)
    return [write_atomic(page, render(template)) for template, page in PAGES.items()]


if __name__ == "__main__":
    write()
