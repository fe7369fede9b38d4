"""Table 5: PESI of the encoders at 14x14, width 768, 60 directions.

Reproduces Tab. 5. Nothing is trained, but "Learnable" needs a trained table: a pretrained model's own. The published
"LOOPE" row is the static Gilbert order, to four decimals. Ours adds the ceiling of M_D as a share, and the encoders
that the paper leaves out. Cost: seconds.

    loope run table5 --preset paper
"""

from loope.lab.experiments.names import ALL_ENCODERS, ENCODERS
from loope.lab.experiments.presets import measured
from loope.lab.experiments.table import Column, Entry, Table
from loope.pesi_metric.published import ROWS

METRICS = {"M_U": "m_u", "M_D": "m_d", "A_SU": "a_su", "M_D, share of its ceiling": "m_d_share"}
ROW_OF = {name: row for row, name in ENCODERS.items()}
PUBLISHED = {ROW_OF[name]: (scores.m_u, scores.m_d, scores.a_su) for name, scores in ROWS.items()}


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
