"""Supp. B.3: PESI beside Three-Cell, for the same trained encoders.

Reproduces Tab. `pesi-3cell`, which claims that a higher M_U goes with a better distance accuracy and a higher M_D with
a better orientation accuracy. PESI is measured after training, on the encoders of Table 4's runs, which it shares. The
last row is Spearman's correlation over the rows; for the published rows it is 0.7, twice.
Cost: that of Table 4.

    loope run alignment --preset laptop --seeds 0,1,2
"""

import math

from loope.lab.experiments.names import ALL_ENCODERS
from loope.lab.experiments.presets import three_cell_run
from loope.lab.experiments.table import Column, Derived, Entry, Table, Values
from loope.lab.experiments.tables import table4, table5

METRICS = {
    "M_U": "pesi_m_u",
    "Distance": "distance",
    "M_D": "pesi_m_d",
    "Orientation": "orientation",
    "A_SU": "pesi_a_su",
}
PUBLISHED = {
    row: (m_u, table4.PUBLISHED[row][0], m_d, table4.PUBLISHED[row][1], a_su)
    for row, (m_u, m_d, a_su) in table5.PUBLISHED.items()
}
PAIRS = {"Distance": "M_U", "Orientation": "M_D"}
CORRELATION = "Rank correlation"


def entries(preset: str) -> list[Entry]:
    """Return the Table 4 run of each encoder except No PE."""
    rows = [*PUBLISHED, *(row for row in ALL_ENCODERS if row not in PUBLISHED and row != "No PE")]
    return [Entry(row=row, run=three_cell_run(preset, ALL_ENCODERS[row]), cells=METRICS) for row in rows]


def correlations(numbers: Values, preset: str) -> Values:
    """Return the rank correlation of accuracy and its PESI score, over the rows that have both."""
    from loope.lab.experiments.statistics import rank_correlation  # tables are listed without SciPy

    found: dict[str, float] = {}
    for accuracy, score in PAIRS.items():
        pairs = [(row[score], row[accuracy]) for row in numbers.values() if score in row and accuracy in row]
        correlation = rank_correlation(*zip(*pairs, strict=True)) if len(pairs) > 2 else math.nan
        if not math.isnan(correlation):
            found[accuracy] = correlation
    return {CORRELATION: found}


TABLE = Table(
    name="alignment",
    title="PESI and Three-Cell, side by side",
    columns=tuple(
        Column(head=head, scale=100, digits=1)
        if head in PAIRS
        else Column(head=head, scale=1, digits=4, best=head != "A_SU")
        for head in METRICS
    ),
    entries=entries,
    published={row: dict(zip(METRICS, numbers, strict=True)) for row, numbers in PUBLISHED.items()},
    notes={"laptop": "On 7x7 cells and width 96, not 14x14 and 768: PESI is not to be compared with the published."},
    derived=Derived(compute=correlations, published={CORRELATION: {"Distance": 0.7, "Orientation": 0.7}}, digits=2),
    plots=("alignment",),
)
