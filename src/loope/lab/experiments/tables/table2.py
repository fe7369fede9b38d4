"""Table 2: LOOPE against advanced encoders on DeiT-Base, three data sets, top-1 accuracy in percent.

Reproduces Tab. 2 with the protocol of Tab. 1. "2D Sinusoid" is the published sum; ours adds the usual concatenated
2D sin/cos, mixed rotary and ALiBi, which the paper leaves out.
Cost: 21 published runs of 150 epochs; docs/scaling.md. On a laptop 16 minutes a run with ViT-Tiny on Pets.

    loope run table2 --preset laptop --only "*Oxford*"
"""

from loope.lab.experiments.names import ALL_ENCODERS, BEYOND
from loope.lab.experiments.presets import image_run
from loope.lab.experiments.spec import Options
from loope.lab.experiments.table import Entry, Table, percent
from loope.lab.experiments.tables.table4 import EARLIER

COLUMNS = ("ImageNet-1k", "Oxford-IIIT", "CIFAR-100")
PUBLISHED = {
    "CPE": (82.7, 83.9, 79.1),
    "RPE": (80.3, 80.5, 79.2),
    "LFF (Fourier)": (83.4, 90.5, 89.1),
    "2D Sinusoid": (83.2, 80.1, 86.3),
    "AS2DRoPE": (82.9, 88.7, 86.4),
    "Static": (83.1, 89.0, 86.9),
    "LOOPE": (83.5, 89.8, 87.1),
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each encoder and data set. The laptop's pretrained model is ViT-Tiny, as in its Table 1."""
    model = "ViT-Base" if preset == "laptop" else "DeiT-Base"
    rows: dict[str, tuple[str, Options]] = {row: (ALL_ENCODERS[row], {}) for row in (*PUBLISHED, *BEYOND)}
    if preset == "laptop":
        rows |= EARLIER
    return [
        Entry(row=row, run=image_run(preset, model, data, *chosen), cells={data: "top1"})
        for row, chosen in rows.items()
        for data in COLUMNS
    ]


TABLE = Table(
    name="table2",
    title="Accuracy of DeiT-Base with advanced encoders",
    columns=percent(*COLUMNS),
    entries=entries,
    published={row: dict(zip(COLUMNS, numbers, strict=True)) for row, numbers in PUBLISHED.items()},
    notes={"laptop": "ViT-Tiny stands in for DeiT-Base; 10 epochs of AdamW at 1e-4."},
)
