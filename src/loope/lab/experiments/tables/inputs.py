"""Supp. B.2: what LOOPE's generator sees, on Three-Cell: RGB, coordinates or both; accuracy in percent.

Reproduces Tab. `3cell-ablation`. Ours adds what the paper leaves open: a last layer that starts from zero (the static
order), a convolution in place of Linear(N, N), and GELU in place of ReLU, whose one-channel map can die.
Cost: as Table 4, whose runs of "Static" and "LOOPE" it shares.

    loope run inputs --preset laptop --seeds 0,1,2
"""

from loope.lab.experiments.presets import three_cell_run
from loope.lab.experiments.table import Entry, Table, percent
from loope.lab.experiments.tables.table4 import METRICS as ALL_METRICS
from loope.lab.experiments.tables.table4 import PUBLISHED as TABLE4

METRICS = {name: metric for name, metric in ALL_METRICS.items() if name != "Average"}
ROWS: dict[str, tuple[str, dict[str, object]]] = {
    "Static": ("gilbert", {}),
    "LOOPE (RGB only)": ("loope", {"inputs": "rgb"}),
    "LOOPE (coordinates only)": ("loope", {"inputs": "xy"}),
    "LOOPE (RGB + coordinates)": ("loope", {}),
    "LOOPE, zero start": ("loope", {"zero_init": True}),
    "LOOPE, convolution mixer": ("loope", {"mixer": "conv"}),
    "LOOPE, GELU": ("loope", {"activation": "gelu"}),
    "LOOPE, live start": ("loope", {"initialization": "live"}),
}
PUBLISHED = {
    "Static": TABLE4["Static"],
    "LOOPE (RGB only)": (89.9, 95.0, 91.6, 92.4),
    "LOOPE (coordinates only)": (91.9, 95.5, 92.8, 94.4),
    "LOOPE (RGB + coordinates)": TABLE4["LOOPE"],
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each variant."""
    # Elsewhere a live start is what the other rows have.
    rows = {row: chosen for row, chosen in ROWS.items() if preset == "laptop" or row != "LOOPE, live start"}
    return [Entry(row=row, run=three_cell_run(preset, *chosen), cells=ALL_METRICS) for row, chosen in rows.items()]


TABLE = Table(
    name="inputs",
    title="What LOOPE's generator sees",
    columns=percent(*ALL_METRICS),
    entries=entries,
    published={row: dict(zip(METRICS, numbers, strict=False)) for row, numbers in PUBLISHED.items()},
    notes={"laptop": "A ViT of width 96 and depth 4 from scratch on 7x7 cells."},
    plots=("scores", "curves", "offsets"),
)
