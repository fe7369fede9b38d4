"""The demo: compare encoders on Three-Cell, on two cores, in a few minutes.

Five encoders in the same small ViT on Three-Cell with 5x5 cells. Without positions every image is the same bag of
tokens, so "none" gives the same answer to all of them and scores exactly the majority rate.
"""

from __future__ import annotations

from pathlib import Path

from loope.lab.engine.recipe import Recipe
from loope.lab.experiments.results import MODEL, folder_of
from loope.lab.experiments.spec import Data, Encoder, Model, Run
from loope.surgery.checkpoint import load, save

ENCODERS = ("loope", "sincos2d", "gilbert", "sinusoid", "none")  # the slowest first: two run at a time
GRID, CELL = 5, 4


def demo_runs(smoke: bool, seed: int) -> list[Run]:
    """Return a run for each encoder."""
    shape = {"embed_dim": 64, "depth": 4, "num_heads": 4, "img_size": GRID * CELL, "patch_size": CELL}
    epochs, size = (1, 300) if smoke else (10, 10_000)
    recipe = Recipe(
        epochs=epochs, batch_size=64, optimizer="adamw", lr=1e-3, min_lr=2.5e-5, warmup=epochs / 10, weight_decay=0.05,
        clip=1.0,
    )  # fmt: skip
    return [
        Run(
            model=Model(name="vit_tiny_patch16_224", options=shape),
            encoder=Encoder(name=name),
            data=Data(name="three_cell", options={"size": size, "grid": GRID, "cell": CELL}),
            recipe=recipe,
            seed=seed,
        )
        for name in ENCODERS
    ]


def write_model(run: Run, out: Path) -> Path | None:
    """Save a trained model in half precision, small enough for the explorer to ship; None if it is missing."""
    file = folder_of(run, out / "runs") / MODEL
    if not file.exists():
        return None
    return save(load(file).half(), out / f"{run.encoder.name}.safetensors", model_args=run.model.made_with())
