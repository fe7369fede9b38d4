"""What is behind the frequency sets of docs/results/replication.md: how many channels they use, and each seed."""

from collections.abc import Callable

from build_replication import PAGE
from claim_rules import sensitivities
from loope.encoders.frequencies import frequency_set
from loope.experiments.tables import table6

CELLS = {"laptop": 7 * 7, "paper": 14 * 14}
LEAST = 0.1  # radians from the first patch to the last: a channel that turns by less is nearly a constant


def turning() -> str:
    """How many channels of each set tell positions apart."""
    wide = {preset: table6.width(preset) for preset in CELLS}
    head = " | ".join(f"of {wide[preset]} channels over {cells} positions" for preset, cells in CELLS.items())
    lines = [f"| turn by more than {LEAST:g} | {head} |", "|---|---:|---:|"]
    for row in table6.SETS:
        counts = [
            int((frequency_set(table6.sets(preset)[row], wide[preset]) * (cells - 1) > LEAST).sum())
            for preset, cells in CELLS.items()
        ]
        lines.append(f"| {row} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines)


def seeds() -> str:
    """The sensitivity of each seed, by which the claim is judged."""
    found = sensitivities()
    shown = sorted(set.union(*(set(each) for each in found.values())))
    lines = [f"| sensitivity | {' | '.join(f'seed {seed}' for seed in shown)} |", "|---" + "|---:" * len(shown) + "|"]
    for column, each in found.items():
        lines.append(f"| {column} | {' | '.join(f'{each[seed]:.4f}' if seed in each else '-' for seed in shown)} |")
    return "\n".join(lines)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    (PAGE, "turning"): turning,
    (PAGE, "sensitivities"): seeds,
}
