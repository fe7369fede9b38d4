"""Beyond the paper: encoders that start from what a pretrained model knows, then fine-tuned on Pets; top-1 in percent.

Each encoder is fitted to the model's own table (`attach(..., init="own")`), or handed over by `loope swap`. Asks the
paper's question where a new encoder does not break the model: does refinement by the image beat its static start?
Cost: on one core 4 minutes a run in bfloat16, and as much to hand a model over. `RoPE mixed` needs the file of a
hand-over:

    python -m replication.transfer hand-over rope_mixed --steps 500 --to WEIGHTS
    LOOPE_WEIGHTS=WEIGHTS loope run swap --preset laptop --seeds 0,1,2

`loope swap` writes such a file from any images: name it WEIGHTS/vit_tiny_patch16_224-rope_mixed.safetensors.
"""

from loope.lab.experiments.presets import swapped_run
from loope.lab.experiments.spec import Encoder
from loope.lab.experiments.table import Entry, Table, percent

COLUMN = "Oxford-IIIT"
REFINE = {"refine": "image"}
ROWS = {
    "own table": Encoder(name="own"),
    "Learnable": Encoder(name="learned", init="own"),
    "1D Sinusoid": Encoder(name="sinusoid", init="own"),
    "Static": Encoder(name="gilbert", init="own"),
    "LOOPE": Encoder(name="loope", init="own"),
    "LOOPE, convolution mixer": Encoder(name="loope", options={"mixer": "conv"}, init="own"),
    "2D sin/cos": Encoder(name="sincos2d", init="own"),
    "2D sin/cos, refined": Encoder(name="sincos2d", options=REFINE, init="own"),
    "LFF (Fourier)": Encoder(name="fourier", init="own"),
    "RoPE mixed": Encoder(name="rope_mixed", init="swapped"),
}


def entries(preset: str) -> list[Entry]:
    """Return a run for each encoder."""
    return [Entry(row=row, run=swapped_run(preset, encoder), cells={COLUMN: "top1"}) for row, encoder in ROWS.items()]


TABLE = Table(
    name="swap",
    title="Fine-tuning after a swap that keeps what the model knows",
    columns=percent(COLUMN),
    entries=entries,
    published={},
    notes={"laptop": "ViT-Tiny, 30 images a class, 5 epochs of AdamW at 1e-4; tested on all test images at hand."},
    plots=("scores", "curves"),
)
