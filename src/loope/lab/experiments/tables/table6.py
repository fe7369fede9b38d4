"""Table 6: four frequency sets x three encoders, accuracy in percent, and the sensitivity of Supp. A.6.

Reproduces Tab. 6: ViT-Base on Oxford-IIIT Pet. On a laptop the probe takes the place of the photographs, because there
positions are all there is to learn from, and its 96 channels sample the paper's curves over 768: ratios to the power 8.
Cost: 12 runs of 150 epochs; docs/scaling.md. On a laptop 12 runs of Three-Cell on 7x7.

    loope run table6 --preset laptop --seeds 0,1,2
"""

from collections.abc import Sequence

from loope.core.errors import require
from loope.lab.experiments.names import ENCODERS
from loope.lab.experiments.presets import image_run, three_cell_run
from loope.lab.experiments.table import Derived, Entry, Table, Values, percent

WIDTH = 768  # L of the paper
COLUMNS = ("1D Sinusoid", "Static", "LOOPE")
SETS = {"Original": "original", "Arithmetic": "arithmetic", "Geometric": "geometric", "Random": "random"}
LAPTOP_WIDTH = 96
LAPTOP_SETS = {
    **SETS,
    "Original": f"geometric:{0.978 ** (WIDTH / LAPTOP_WIDTH):.4f}",
    "Geometric": f"geometric:{0.9 ** (WIDTH / LAPTOP_WIDTH):.4f}",
}
SENSITIVITY = "Sensitivity"
PUBLISHED = {
    "Original": (85.3, 84.6, 88.1),
    "Arithmetic": (73.6, 76.5, 86.6),
    "Geometric": (89.8, 87.3, 89.9),
    "Random": (83.5, 87.5, 88.0),
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each set and encoder."""
    return [_entry(preset, row, name, column) for row, name in sets(preset).items() for column in COLUMNS]


def sets(preset: str) -> dict[str, str]:
    """Return row -> name of its frequency set."""
    return LAPTOP_SETS if preset == "laptop" else SETS


def width(preset: str) -> int:
    """Return the number of channels of a set."""
    return LAPTOP_WIDTH if preset == "laptop" else WIDTH


def _entry(preset: str, row: str, frequencies: str, column: str) -> Entry:
    name, options = ENCODERS[column], {"frequencies": frequencies}
    if preset == "laptop":
        return Entry(row=row, run=three_cell_run(preset, name, options), cells={column: "average"})
    return Entry(row=row, run=image_run(preset, "ViT-Base", "Oxford-IIIT", name, options), cells={column: "top1"})


def sensitivity(outputs: Sequence[float], sets: Sequence[str] = tuple(SETS.values()), width: int = WIDTH) -> float:
    """Return the weighted mean of the sensitivities of A.6, sum |O_j - O_1| / sum Delta f_j over j = 2..4.

    Args:
        outputs: accuracies with the four sets, the original first.
        sets: names of the four frequency sets.
        width: channels of each set.

    Examples:
        >>> round(sensitivity([0.881, 0.866, 0.899, 0.880]), 4)  # LOOPE in the paper: 0.005244
        0.0052
    """
    require(
        len(outputs) == len(SETS), f"Expected an accuracy for each of {', '.join(SETS.values())}, got {len(outputs)}."
    )
    return sum(abs(output - outputs[0]) for output in outputs[1:]) / sum(relative_changes(sets, width))


def relative_changes(sets: Sequence[str] = tuple(SETS.values()), width: int = WIDTH) -> list[float]:
    """Return Delta f_j = |f_j - f_1| / |f_1| of the three other sets."""
    from loope.encoders.frequencies import frequency_set

    first, *others = (frequency_set(name, width) for name in sets)
    return [((each - first).norm() / first.norm()).item() for each in others]


def _sensitivities(ours: Values, preset: str) -> Values:
    found = {}
    for column in COLUMNS:
        scores = [ours.get(row, {}).get(column) for row in SETS]
        if all(score is not None for score in scores):
            found[column] = sensitivity(
                [score for score in scores if score is not None], list(sets(preset).values()), width(preset)
            )
    return {SENSITIVITY: found}


TABLE = Table(
    name="table6",
    title="Robustness across frequency sets",
    columns=percent(*COLUMNS),
    entries=entries,
    published={row: dict(zip(COLUMNS, numbers, strict=True)) for row, numbers in PUBLISHED.items()},
    across=True,
    notes={"laptop": "Average accuracy on Three-Cell, 7x7, in place of accuracy on Oxford-IIIT Pet."},
    derived=Derived(
        compute=_sensitivities,
        published={SENSITIVITY: dict(zip(COLUMNS, (0.027760, 0.022516, 0.005244), strict=True))},
        digits=6,
    ),
)
