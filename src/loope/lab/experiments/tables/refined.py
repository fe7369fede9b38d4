"""Beyond the paper: positions refined by the image against static ones, on five bases; Three-Cell accuracy in percent.

Asks whether looking at the image helps on any base, by which generator and at which size of offset. The recipe is that
of the table `encoders`, with which it shares the static rows.
Cost: on one core 1.3 minutes a run, if as that of other encoders; the generators' share was not measured.

    loope run refined --preset laptop --seeds 0,1,2,3,4
"""

from loope.lab.experiments.presets import study_run
from loope.lab.experiments.spec import Options
from loope.lab.experiments.table import Entry, Table, percent
from loope.lab.experiments.tables.encoders import GRIDS
from loope.lab.experiments.tables.table4 import METRICS

BASES = {
    "Gilbert": "gilbert",
    "Raster": "sinusoid",
    "2D sin/cos": "sincos2d",
    "LFF (Fourier)": "fourier",
    "RoPE mixed": "rope_mixed",
}
SMOKE = ("Gilbert", "RoPE mixed")  # along a curve and in the plane
PAPER = {"mixer": "linear", "activation": "relu", "initialization": "torch", "zero_init": False}
# A generator with the default options starts from the static positions and cannot start dead.
GENERATORS: dict[str, Options] = {
    "static": {},
    "paper's generator": {"refine": PAPER},
    "conv mixer": {"refine": {**PAPER, "mixer": "conv"}},
    "cannot start dead": {"refine": {}},
    "coordinates only": {"refine": {"inputs": "xy"}},
    "offsets to 0.25": {"refine": {"reach": 0.25}},
    "offsets to 4": {"refine": {"reach": 4.0}},
}
REACHES = ("Gilbert", "2D sin/cos")  # bases with other sizes of offsets: the paper's, and the best without parameters


def variants() -> list[tuple[str, str]]:
    """Return the pairs of base and generator."""
    return [
        (base, generator)
        for base in BASES
        for generator, options in GENERATORS.items()
        if base in REACHES or "reach" not in options.get("refine", {})
    ]


def entries(preset: str) -> list[Entry]:
    """Return a run for each base and generator."""
    smoke = preset == "smoke"
    cells = {**METRICS, **{f"Average, {side}x{side}": f"average_{side}x{side}" for side in ((5,) if smoke else GRIDS)}}
    return [
        Entry(row=f"{base}, {generator}", run=study_run(preset, BASES[base], GENERATORS[generator]), cells=cells)
        for base, generator in variants()
        if not smoke or base in SMOKE
    ]


TABLE = Table(
    name="refined",
    title="Static against refined positions",
    columns=percent(*METRICS, *(f"Average, {side}x{side}" for side in GRIDS)),
    entries=entries,
    published={},
    notes={"laptop": "A ViT of width 64 and depth 2 with attention pooling, from scratch; docs/results/plateau.md."},
    plots=("scores", "curves"),
)
