"""What is behind the frequency sets of docs/results/replication.md: their channels, each seed, another reading."""

from collections.abc import Callable

from loope.encoders.frequencies import frequency_set
from loope.experiments.statistics import Difference, paired
from loope.experiments.tables import table6
from replication.plan import is_complete
from replication.rules import in_words, on_frequencies, sensitivities

CELLS = {"laptop": 7 * 7, "paper": 14 * 14}
NOT_YET = "*Not all of its runs are done.*"
OTHERS = table6.COLUMNS[:2]  # than LOOPE
LEAST = 0.1  # radians from the first patch to the last: a channel that turns by minus is nearly a constant


def turning() -> str:
    """How many channels of each set tell positions apart."""
    wide = {preset: table6.width(preset) for preset in CELLS}
    head = " | ".join(f"of {wide[preset]} channels over {cells} positions" for preset, cells in CELLS.items())
    lines = [f"| change their phase by more than {LEAST:g} from first to last | {head} |", "|---|---:|---:|"]
    for row in table6.SETS:
        counts = [
            int((frequency_set(table6.sets(preset)[row], wide[preset]) * (cells - 1) > LEAST).sum())
            for preset, cells in CELLS.items()
        ]
        shares = [f"{count} ({count / wide[preset]:.0%})" for count, preset in zip(counts, CELLS, strict=True)]
        lines.append(f"| {row} | {' | '.join(shares)} |")
    return "\n".join(lines)


def seeds() -> str:
    """The sensitivity of each seed, by which the claim is judged."""
    found = sensitivities()
    shown = sorted(set.union(*(set(each) for each in found.values())))
    lines = [f"| sensitivity | {' | '.join(f'seed {seed}' for seed in shown)} |", "|---" + "|---:" * len(shown) + "|"]
    for column, each in found.items():
        lines.append(f"| {column} | {' | '.join(f'{each[seed]:.4f}' if seed in each else '-' for seed in shown)} |")
    return "\n".join(lines)


def differences(default: bool) -> dict[str, Difference]:
    """What hangs on the original set: A.6's, or in its place the default of the encoders."""
    scores, moved = on_frequencies(default), sensitivities(default)
    pairs = {
        **{f"sensitivity, {other} minus LOOPE": (moved[other], moved["LOOPE"]) for other in OTHERS},
        **{f"LOOPE minus {other}": (scores["Original", "LOOPE"], scores["Original", other]) for other in OTHERS},
        **{
            f"*Geometric* minus it, {column}": (scores["Geometric", column], scores["Original", column])
            for column in table6.COLUMNS
        },
    }
    return {name: paired(*pair) for name, pair in pairs.items()}


def readings() -> str:
    """Both readings side by side."""
    if not is_complete("table6", {(row, column) for row in table6.SETS for column in table6.COLUMNS}):
        return NOT_YET
    lines = ["| *Original* is | 0.978^i, as in A.6 | the default of the encoders |", "|---|---:|---:|"]
    as_default = differences(default=True)
    for name, found in differences(default=False).items():
        digits = 4 if name.startswith("sensitivity") else 1
        lines.append(f"| {name} | {in_words(found, digits)} | {in_words(as_default[name], digits)} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "turning": turning,
    "sensitivities": seeds,
    "readings": readings,
}
