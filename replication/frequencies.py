"""What is behind the frequency sets of docs/results/replication.md: their channels, each seed, another reading."""

from collections.abc import Callable

from loope.encoders.frequencies import frequency_set
from loope.lab.experiments.statistics import Difference, paired
from loope.lab.experiments.tables import table6
from replication.results import table
from replication.rules import in_words, on_frequencies, sensitivities

CELLS = {"laptop": 7 * 7, "paper": 14 * 14}
OTHERS = table6.COLUMNS[:2]  # than LOOPE
LEAST = 0.1  # radians from the first patch to the last: a channel that turns by minus is nearly a constant


def turning() -> str:
    """How many channels of each set tell positions apart."""
    wide = {preset: table6.width(preset) for preset in CELLS}
    heads = (f"of {wide[preset]} channels over {cells} positions" for preset, cells in CELLS.items())
    rows = []
    for row in table6.SETS:
        counts = [
            int((frequency_set(table6.sets(preset)[row], wide[preset]) * (cells - 1) > LEAST).sum())
            for preset, cells in CELLS.items()
        ]
        shares = [f"{count} ({count / wide[preset]:.0%})" for count, preset in zip(counts, CELLS, strict=True)]
        rows.append((row, *shares))
    return table((f"change their phase by more than {LEAST:g} from first to last", *heads), rows)


def seeds() -> str:
    """The sensitivity of each seed, by which the claim is judged."""
    found = sensitivities()
    rows = ((column, *(f"{value:.4f}" for value in found[column])) for column in found)
    return table(("sensitivity", *(f"seed {seed}" for seed in found.index)), rows)


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
    both = differences(default=False), differences(default=True)
    rows = (
        (name, *(in_words(each[name], 4 if name.startswith("sensitivity") else 1) for each in both)) for name in both[0]
    )
    return table(("*Original* is", "0.978^i, as in A.6", "the default of the encoders"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "turning": turning,
    "sensitivities": seeds,
    "readings": readings,
}
