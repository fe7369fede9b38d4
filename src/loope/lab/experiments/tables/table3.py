"""Table 3: segmentation of Cityscapes by SETR and Segmenter with seven encoders, five metrics in percent.

Reproduces Tab. 3: batch 64, 100 epochs, learning rate 1e-4, 80-20 split. The paper names neither decoder nor backbone:
SETR-PUP and Segmenter with the mask transformer on DeiT-Base, its default, are ours to choose.
Cost: 14 runs; docs/scaling.md. On a laptop CamVid at 240x320 with ViT-Tiny and the simplest decoders.

    loope run table3 --preset laptop --only "SETR*"
"""

from loope.lab.experiments.names import ENCODERS
from loope.lab.experiments.presets import segmentation_run
from loope.lab.experiments.table import Entry, Table, percent

METRICS = {"Acc": "accuracy", "mIoU": "miou", "mDice": "mdice", "Boundary F1": "boundary_f1", "MCC": "mcc"}
PUBLISHED = {
    "SETR": {
        "No PE": (80.84, 79.56, 84.53, 3.48, 88.75),
        "1D Sinusoid": (80.96, 78.33, 82.51, 3.55, 91.99),
        "Learnable": (81.35, 74.41, 79.26, 3.88, 88.87),
        "CPE": (80.67, 78.42, 82.71, 3.31, 87.26),
        "LFF (Fourier)": (82.69, 80.41, 85.20, 7.83, 85.64),
        "2D Sinusoid": (80.74, 78.26, 82.46, 3.04, 91.88),
        "LOOPE": (83.63, 81.37, 86.17, 7.44, 89.56),
    },
    "Segmenter": {
        "No PE": (79.55, 79.13, 84.48, 6.23, 83.34),
        "1D Sinusoid": (81.82, 80.59, 85.79, 18.37, 84.74),
        "Learnable": (81.48, 80.46, 85.73, 15.33, 84.68),
        "CPE": (79.19, 78.71, 84.00, 8.80, 82.89),
        "LFF (Fourier)": (83.20, 81.41, 86.46, 26.60, 85.51),
        "2D Sinusoid": (80.93, 79.90, 85.13, 9.58, 84.08),
        "LOOPE": (84.05, 82.26, 87.31, 32.21, 86.37),
    },
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each model and encoder."""
    return [
        Entry(row=f"{model} / {row}", run=segmentation_run(preset, model, ENCODERS[row]), cells=METRICS)
        for model, rows in PUBLISHED.items()
        for row in rows
    ]


TABLE = Table(
    name="table3",
    title="Segmentation with SETR and Segmenter",
    columns=percent(*METRICS),
    entries=entries,
    published={
        f"{model} / {row}": dict(zip(METRICS, numbers, strict=True))
        for model, rows in PUBLISHED.items()
        for row, numbers in rows.items()
    },
    plots=("examples",),
    notes={"laptop": "CamVid (11 classes) in place of Cityscapes, ViT-Tiny with a linear decoder."},
)
