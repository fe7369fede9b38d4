"""Supp. B.4: M_D against the number of directions N.

Reproduces Fig. `md`, which prints no numbers. It claims that M_D tends to M_U as N goes to 1: it does not, because M_D
ranks single cells and M_U ranks radial means. M_D's ceiling falls with N too, so each curve has it beside it.
Cost: seconds.

    loope run trend --preset paper
"""

from loope.lab.experiments.names import ALL_ENCODERS
from loope.lab.experiments.presets import measured
from loope.lab.experiments.table import Column, Entry, Table

DIRECTIONS = (1, 4, 8, 16, 32, 60, 120)
ROWS = ("Learnable", "1D Sinusoid", "LFF (Fourier)", "Static", "2D sin/cos")


def entries(preset: str) -> list[Entry]:
    """Return a measurement for each encoder; LOOPE before training is "Static"."""
    cells = {"M_U": "m_u", **{f"N = {count}": f"m_d_{count}" for count in DIRECTIONS}}
    rows = [Entry(row=row, run=measured(preset, ALL_ENCODERS[row], DIRECTIONS), cells=cells) for row in ROWS]
    ceiling = {f"N = {count}": f"m_d_ceiling_{count}" for count in DIRECTIONS}
    return [*rows, Entry(row="ceiling of M_D", run=rows[1].run, cells=ceiling)]


TABLE = Table(
    name="trend",
    title="M_D against the number of directions",
    columns=tuple(
        Column(head=head, scale=1, digits=4, best=False) for head in ("M_U", *(f"N = {n}" for n in DIRECTIONS))
    ),
    entries=entries,
    published={},
    plots=("trend",),
)
