"""Beyond the paper: every encoder on Three-Cell with a recipe under which they learn; accuracy in percent.

Trained on 7x7 cells and tested on 5x5, 10x10 and 14x14 too, without training there. docs/results/plateau.md has the
recipe, the date on which it was decided, and what was tried; the recipe of Table 4 is kept with its results. All
presets but `smoke` are the same.
Cost: on one core 1.3 minutes a run on 7x7; 9 to 12 on 14x14, estimated from the first third of a run.

    loope run encoders --preset laptop --seeds 0,1,2
"""

from loope.lab.experiments.names import ALL_ENCODERS
from loope.lab.experiments.presets import study_run
from loope.lab.experiments.spec import Options
from loope.lab.experiments.table import Entry, Table, percent
from loope.lab.experiments.tables.table4 import METRICS

GRIDS = (5, 10, 14)
LARGE_GRIDS = (7, 10, 20)
ROWS: dict[str, tuple[str, Options]] = {
    **{row: (name, {}) for row, name in ALL_ENCODERS.items()},
    "RPE, bias": ("irpe", {"mode": "bias"}),
    "RoPE DINOv3": ("rope_dinov3", {}),
    "RoPE golden": ("rope_golden", {}),
    "RoPE spiral": ("rope_spiral", {}),
    "RoPE simplex": ("rope_simplex", {}),
    "LieRE": ("liere", {}),
    "log-CPB": ("rel_pos_mlp", {}),
    "LookHere": ("lookhere", {}),
    "FIRE 2D": ("fire2d", {}),
    "PaPE": ("pape", {}),
    "Factorized": ("factorized", {}),
}
LARGE = ("Learnable", "1D Sinusoid", "Static", "LOOPE", "2D sin/cos", "RoPE mixed")  # on 14x14 too


def entries(preset: str) -> list[Entry]:
    """Return a run for each encoder."""
    rows = [Entry(row=row, run=study_run(preset, *chosen), cells=_cells(preset)) for row, chosen in ROWS.items()]
    if preset == "smoke":
        return rows
    return rows + [
        Entry(row=f"{row}, 14x14", run=study_run(preset, *ROWS[row], grid=14), cells=_cells(preset, LARGE_GRIDS))
        for row in LARGE
    ]


def _cells(preset: str, grids: tuple[int, ...] = GRIDS) -> dict[str, str]:
    others = (5,) if preset == "smoke" else grids
    return {**METRICS, **{f"Average, {side}x{side}": f"average_{side}x{side}" for side in others}}


TABLE = Table(
    name="encoders",
    title="Three-Cell: every encoder, and extrapolation",
    columns=percent(*METRICS, *(f"Average, {side}x{side}" for side in sorted({*GRIDS, *LARGE_GRIDS}))),
    entries=entries,
    published={},
    notes={"laptop": "A ViT of width 64 and depth 2 with attention pooling, from scratch; docs/results/plateau.md."},
    plots=("scores", "curves"),
)
