"""Table 7: 224 against 384 pixels, three backbones on Oxford-IIIT Pet, top-1 accuracy in percent.

Reproduces Tab. 7: the same patch of 16 pixels, so 14x14 against 24x24 patches; batch 32 at 384.
Cost: 12 runs of 150 epochs; docs/scaling.md. On a laptop 2 epochs of ViT-Tiny: 3 minutes at 224, 14 at 384.

    loope run table7 --preset laptop
"""

from loope.lab.experiments.names import ENCODERS
from loope.lab.experiments.presets import image_run
from loope.lab.experiments.spec import Run
from loope.lab.experiments.table import Entry, Table, percent

COLUMNS = ("1D Sinusoid", "LOOPE")
PUBLISHED = {
    224: {"ViT-Base": (85.3, 88.1), "ViT-Small": (81.6, 83.8), "DeiT-Base": (86.3, 89.8)},
    384: {"ViT-Base": (89.1, 92.2), "ViT-Small": (83.0, 86.1), "DeiT-Base": (88.5, 92.4)},
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each size, model and encoder; on a laptop without ViT-Small, whose stand-in is ViT-Base's."""
    return [
        Entry(row=f"{size} / {model}", run=_run(preset, size, model, column), cells={column: "top1"})
        for size, models in PUBLISHED.items()
        for model in models
        for column in COLUMNS
        if not (preset == "laptop" and model == "ViT-Small")
    ]


def _run(preset: str, size: int, model: str, column: str) -> Run:
    # At the models' own size these are Table 1's runs, and are not done twice.
    run = image_run(preset, model, "Oxford-IIIT", ENCODERS[column], size=None if size == 224 else size)
    if preset == "laptop":
        return run.with_recipe(epochs=2)
    if preset == "paper" and size == 384:
        return run.with_recipe(batch_size=32)
    return run


TABLE = Table(
    name="table7",
    title="Accuracy at 224 and 384 pixels",
    columns=percent(*COLUMNS),
    entries=entries,
    published={
        f"{size} / {model}": dict(zip(COLUMNS, numbers, strict=True))
        for size, models in PUBLISHED.items()
        for model, numbers in models.items()
    },
    across=True,
    notes={"laptop": "ViT-Tiny and DeiT-Tiny, 2 epochs of AdamW at 1e-4."},
)
