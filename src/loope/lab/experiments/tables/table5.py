"""Table 5: PESI of the encoders at 14x14, width 768, 60 directions.

Reproduces Tab. 5. Nothing is trained, but "Learnable" needs a trained table: a pretrained model's own. The published
"LOOPE" row is the static Gilbert order, to four decimals. Ours adds the ceiling of M_D as a share, and the encoders
that the paper leaves out. Cost: seconds.

    loope run table5 --preset paper
"""

from loope.lab.experiments.names import ALL_ENCODERS
from loope.lab.experiments.presets import measured
from loope.lab.experiments.table import Column, Entry, Table

METRICS = {"M_U": "m_u", "M_D": "m_d", "A_SU": "a_su", "M_D, share of its ceiling": "m_d_share"}
PUBLISHED = {
    "Learnable": (1.7493, 1.2003, -0.7272),
    "1D Sinusoid": (1.9567, 1.4905, 0.1243),
    "LFF (Fourier)": (1.9623, 1.5230, 0.2683),
    "Static": (1.9670, 1.2897, 0.0945),
    "LOOPE": (1.9674, 1.2900, 0.0939),
}


def entries(preset: str) -> list[Entry]:
    """Return a measurement for each encoder except No PE."""
    rows = [*PUBLISHED, *(row for row in ALL_ENCODERS if row not in PUBLISHED and row != "No PE")]
    return [Entry(row=row, run=measured(preset, ALL_ENCODERS[row]), cells=METRICS) for row in rows]


TABLE = Table(
    name="table5",
    title="PESI: how well encoders keep geometry",
    columns=(
        *(Column(head=head, scale=1, digits=4, best=head != "A_SU") for head in list(METRICS)[:3]),
        Column(head="M_D, share of its ceiling"),
    ),
    entries=entries,
    published={row: dict(zip(METRICS, numbers, strict=False)) for row, numbers in PUBLISHED.items()},
    notes={
        "laptop": "At the paper's 14x14 and width 768; only the learned table is ViT-Tiny's own, not ViT-Base's.",
    },
)
