"""Sensitivity of the accuracy to the frequency set (Supp. A.6)."""

from __future__ import annotations

from collections.abc import Sequence

from loope.core.errors import require

WIDTH = 768  # L of the paper
SETS = ("original", "arithmetic", "geometric", "random")


def sensitivity(outputs: Sequence[float], sets: Sequence[str] = SETS, width: int = WIDTH) -> float:
    """Return the weighted mean of the sensitivities of A.6, sum |O_j - O_1| / sum Delta f_j over j = 2..4.

    Args:
        outputs: accuracies with the four sets, the original first.
        sets: names of the four frequency sets.
        width: channels of each set.

    Examples:
        >>> round(sensitivity([0.881, 0.866, 0.899, 0.880]), 4)  # LOOPE in the paper: 0.005244
        0.0052
    """
    require(len(outputs) == len(SETS), f"Expected an accuracy for each of {', '.join(SETS)}, got {len(outputs)}.")
    return sum(abs(output - outputs[0]) for output in outputs[1:]) / sum(relative_changes(sets, width))


def relative_changes(sets: Sequence[str] = SETS, width: int = WIDTH) -> list[float]:
    """Return Delta f_j = |f_j - f_1| / |f_1| of the three other sets."""
    from loope.encoders.frequencies import frequency_set

    first, *others = (frequency_set(name, width) for name in sets)
    return [((each - first).norm() / first.norm()).item() for each in others]
