"""Supp. B.1: training from scratch on ImageNet-100, top-1 accuracy in percent and the epoch of the best.

Reproduces Tab. `scratch`: ViT-Base and Cross-ViT from random weights, 300 epochs, the same protocol for all encoders.
Cost: 10 runs; docs/scaling.md. On a laptop, small models on a few images a class: not a replication, a rehearsal.

    loope run scratch --preset paper
"""

from loope.lab.experiments.names import ENCODERS
from loope.lab.experiments.presets import image_run
from loope.lab.experiments.spec import Run
from loope.lab.experiments.table import Column, Entry, Table, percent

ENCODER_NAMES = ("No PE", "Learnable", "1D Sinusoid", "Static", "LOOPE")
EPOCH_COLUMNS = tuple(f"{name}, best epoch" for name in ENCODER_NAMES)
PUBLISHED = {
    "ViT-Base": (87.1, 87.9, 88.8, 89.0, 89.2, 258, 262, 280, 265, 267),
    "Cross-ViT": (86.6, 87.7, 87.9, 88.8, 89.4, 268, 271, 293, 275, 277),
}
EPOCHS = 300  # the published best epochs lie between 258 and 293


def entries(preset: str) -> list[Entry]:
    """Return a run for each model and encoder; best accuracy on the validation part, as published."""
    return [
        Entry(
            row=model,
            run=_run(preset, model, ENCODERS[name]),
            cells={name: "best_top1", f"{name}, best epoch": "best_epoch"},
        )
        for model in PUBLISHED
        for name in ENCODER_NAMES
    ]


def _run(preset: str, model: str, encoder: str) -> Run:
    run = image_run(preset, model, "ImageNet-100", encoder, scratch=True)
    return run.with_recipe(epochs=EPOCHS) if preset == "paper" else run


TABLE = Table(
    name="scratch",
    title="From scratch on ImageNet-100",
    columns=(*percent(*ENCODER_NAMES), *(Column(head=head, scale=1, digits=0, best=False) for head in EPOCH_COLUMNS)),
    entries=entries,
    published={
        row: dict(zip((*ENCODER_NAMES, *EPOCH_COLUMNS), numbers, strict=True)) for row, numbers in PUBLISHED.items()
    },
    across=True,
)
