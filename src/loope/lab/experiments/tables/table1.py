"""Table 1: five backbones x three data sets x five encoders, top-1 accuracy in percent.

Reproduces Tab. 1: pretrained backbones, the encoder from scratch, the whole network trained end to end.
Published: below. Cost: 75 runs of 150 epochs; docs/scaling.md estimates the GPU-hours. On a laptop 16 minutes a run
with ViT-Tiny on Pets.

    loope run table1 --preset laptop --only "Oxford-IIIT / ViT*" --seeds 0,1
"""

from loope.lab.experiments.names import ENCODERS
from loope.lab.experiments.presets import image_run
from loope.lab.experiments.table import Entry, Table, percent

COLUMNS = ("No PE", "Learnable", "1D Sinusoid", "Static", "LOOPE")
PUBLISHED = {
    "Oxford-IIIT": {
        "ViT-Base": (83.6, 84.6, 85.3, 84.2, 88.1),
        "DeiT-Base": (88.9, 89.4, 86.3, 89.0, 89.8),
        "DeiT-Small": (83.8, 83.8, 83.7, 80.6, 84.5),
        "CaiT": (87.4, 89.0, 90.0, 89.6, 90.5),
        "Cross-ViT": (88.3, 90.9, 88.0, 89.3, 91.0),
    },
    "CIFAR-100": {
        "ViT-Base": (79.8, 83.0, 85.2, 87.6, 88.3),
        "DeiT-Base": (82.1, 86.3, 86.6, 86.9, 87.1),
        "DeiT-Small": (68.6, 81.6, 71.9, 77.7, 82.0),
        "CaiT": (77.3, 82.5, 82.3, 82.5, 83.1),
        "Cross-ViT": (80.5, 84.6, 86.3, 85.3, 86.8),
    },
    "ImageNet-1k": {
        "ViT-Base": (82.7, 83.6, 84.4, 84.5, 84.7),
        "DeiT-Base": (81.7, 82.1, 82.0, 83.1, 83.5),
        "DeiT-Small": (80.5, 82.2, 82.8, 82.8, 83.0),
        "CaiT": (80.3, 81.6, 81.6, 82.8, 83.1),
        "Cross-ViT": (82.4, 83.5, 83.1, 84.5, 84.8),
    },
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each model, data set and encoder, and the model's own table beside them."""
    return [
        Entry(
            row=f"{data} / {model}",
            run=image_run(preset, model, data, ENCODERS.get(column, "own")),
            cells={column: "top1"},
        )
        for data, models in PUBLISHED.items()
        for model in models
        for column in (*COLUMNS, "own table")
    ]


TABLE = Table(
    name="table1",
    title="Accuracy of vision transformers with 1D encoders",
    columns=percent(*COLUMNS, "own table"),
    entries=entries,
    published={
        f"{data} / {model}": dict(zip(COLUMNS, numbers, strict=True))
        for data, models in PUBLISHED.items()
        for model, numbers in models.items()
    },
    across=True,
    notes={
        "laptop": "The smallest pretrained model of each family stands in for the published; DeiT-Tiny for both DeiTs. "
        "10 epochs of AdamW at 1e-4, 3 for CaiT, 7 for CrossViT and at most 8 on ImageNet-1k. "
        "The published numbers are of other models and a longer training.",
    },
)
