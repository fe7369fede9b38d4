"""Table 4: the Three-Cell probe, accuracy on its four questions in percent.

Reproduces Tab. 4: two convolutional networks, and DeiT-Base with every encoder, on 10,000 images of a 14x14 grid.
"Average" is the mean of the four. Ours adds the encoders that the paper leaves out.
Cost: 150 epochs of 8,000 images a run; docs/scaling.md. On a laptop a ViT of width 96 on 7x7; four on 14x14.

    loope run table4 --preset laptop --seeds 0,1,2
"""

from loope.lab.experiments.names import ALL_ENCODERS
from loope.lab.experiments.presets import three_cell_cnn, three_cell_run
from loope.lab.experiments.spec import Options
from loope.lab.experiments.table import Entry, Table, percent

METRICS = {
    "Distance": "distance",
    "Orientation": "orientation",
    "Area": "area",
    "Vector sum": "vector_sum",
    "Average": "average",
}
# Row: the paper's network, and what stands in for it where that would be too large or the image too small.
CNNS = {"ResNet-50": ("resnet50.a1_in1k", "resnet10t"), "Inception-V3": ("inception_v3.tv_in1k", "inception_v3")}
PUBLISHED = {
    "ResNet-50": (90.8, 85.6, 89.7, 92.9, 89.8),
    "Inception-V3": (92.8, 96.1, 93.7, 95.3, 94.5),
    "No PE": (61.9, 53.1, 60.1, 62.6, 59.4),
    "Learnable": (85.6, 89.3, 84.0, 92.2, 87.8),
    "1D Sinusoid": (90.9, 94.9, 91.3, 95.3, 93.1),
    "CPE": (72.8, 63.2, 72.6, 75.0, 70.9),
    "RPE": (73.7, 62.6, 71.0, 73.9, 70.3),
    "LFF (Fourier)": (93.1, 96.7, 92.4, 93.9, 94.0),
    "2D Sinusoid": (83.6, 60.0, 72.6, 92.3, 77.1),
    "Static": (88.8, 95.0, 89.9, 93.8, 91.9),
    "LOOPE": (93.4, 95.8, 93.3, 94.6, 94.3),
}
SMALL_CNN = "ResNet-10 (for ResNet-50)"  # on a laptop
# On a laptop also what two rows were until their defaults followed the code of their authors.
EARLIER: dict[str, tuple[str, Options]] = {
    "LFF / sqrt(F)": ("fourier", {"amplitude": "li"}),
    "AS2DRoPE, base 100": ("as2drope", {"temperature": 100.0}),
}
LARGE_GRID = ("1D Sinusoid", "Static", "LOOPE", "2D sin/cos")  # on a laptop, on 14x14 too


def entries(preset: str) -> list[Entry]:
    """Return a run for each network and encoder."""
    chosen = {SMALL_CNN: CNNS["ResNet-50"]} if preset == "laptop" else CNNS
    cnns = [Entry(row=row, run=three_cell_cnn(preset, *names), cells=METRICS) for row, names in chosen.items()]
    rows = [Entry(row=row, run=three_cell_run(preset, name), cells=METRICS) for row, name in ALL_ENCODERS.items()]
    if preset == "laptop":
        rows += [Entry(row=row, run=three_cell_run(preset, *chosen), cells=METRICS) for row, chosen in EARLIER.items()]
        rows += [
            Entry(row=f"{row}, 14x14", run=three_cell_run(preset, ALL_ENCODERS[row], grid=14), cells=METRICS)
            for row in LARGE_GRID
        ]
    return cnns + rows


TABLE = Table(
    name="table4",
    title="Three-Cell: accuracy by question",
    columns=percent(*METRICS),
    entries=entries,
    published={
        row: dict(zip(METRICS, numbers, strict=True))
        for row, numbers in {
            **PUBLISHED,
            SMALL_CNN: PUBLISHED["ResNet-50"],
            **{f"{row}, 14x14": PUBLISHED[row] for row in LARGE_GRID if row in PUBLISHED},
        }.items()
    },
    notes={
        "laptop": "A ViT of width 96 and depth 4 from scratch on 7x7 cells (14x14 where the row says so) stands in for "
        "DeiT-Base on 14x14; Inception-V3 takes no image this small.",
    },
    plots=("scores", "curves"),
)
