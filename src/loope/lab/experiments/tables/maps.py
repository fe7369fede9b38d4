"""Fig. `cosine` and Supp. B.5: similarity maps of single patches.

Reproduces the paper's two figures as pictures; they print no numbers. "LOOPE" there is the encoder before an image has
moved its patches: the static Gilbert order. Ours adds the concatenated 2D sin/cos.
Cost: seconds.

    loope run maps --preset paper && loope report maps --format html
"""

from loope.lab.experiments.names import ALL_ENCODERS
from loope.lab.experiments.presets import measured
from loope.lab.experiments.table import Column, Entry, Table

ROWS = ("1D Sinusoid", "Learnable", "LFF (Fourier)", "LOOPE", "2D sin/cos")
METRICS = {"M_U": "m_u", "M_D": "m_d"}


def entries(preset: str) -> list[Entry]:
    """Return a measurement for each encoder, which keeps its similarity matrix."""
    return [Entry(row=row, run=measured(preset, ALL_ENCODERS[row]), cells=METRICS) for row in ROWS]


TABLE = Table(
    name="maps",
    title="Similarity maps of single patches",
    columns=tuple(Column(head=head, scale=1, digits=4) for head in METRICS),
    entries=entries,
    published={},
    plots=("maps",),
)
