"""The demo: compare encoders on Three-Cell, on two cores, in a few minutes.

Five encoders in the same small ViT on Three-Cell with 7x7 cells. Without positions every image is the same bag of
tokens, so "none" gives the same answer to all of them and scores what a constant answer does. Then the encoder of the
model that was trained with `sincos2d` is swapped, without labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loope.lab.executors import Executor
from loope.lab.experiments.presets import STUDY, STUDY_MODEL
from loope.lab.experiments.results import MODEL, folder_of
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Data, Encoder, Model, Run
from loope.lab.experiments.sweep import Outcome, run_sweep
from loope.surgery.checkpoint import load, save

ENCODERS = ("loope", "sincos2d", "gilbert", "sinusoid", "none")  # the slowest first, the swap beside the last
GRID, CELL = 7, 4
# The recipe of docs/results/plateau.md, shorter, and in float32: not every processor is fast in bfloat16.
RECIPE = dataclasses.replace(STUDY, epochs=4, warmup=0.4, precision="float32")
SIZE = 20_000  # samples of all splits


def demo_runs(smoke: bool, seed: int) -> list[Run]:
    """Return a run for each encoder."""
    shape = {**STUDY_MODEL, "img_size": GRID * CELL, "patch_size": CELL}
    recipe = dataclasses.replace(RECIPE, epochs=1) if smoke else RECIPE
    size = 300 if smoke else SIZE
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


def run_demo(
    runs: list[Run], out: Path, executor: Executor, watch: Callable[[list[Run]], None], smoke: bool
) -> tuple[Outcome, dict[str, Any] | None]:
    """Execute the runs, and swap the encoder of one beside the last of them.

    Returns:
        The outcome of the runs, and the scores of the swaps; None if a run is missing.
    """
    from loope.lab.experiments.demo_swap import TRAINED, read_swaps, swap_encoders

    *first, last = runs
    outcome = run_sweep(first, out, executor, Settings(), lambda left: watch([*left, last]))
    if outcome.failures or outcome.elsewhere:
        return outcome, None
    (trained,) = (run for run in runs if run.encoder.name == TRAINED)
    swapping = executor.submit(swap_encoders, trained.to_json(), str(out.resolve()), smoke)
    outcome = run_sweep(runs, out, executor, Settings(), watch)
    swapping.result()
    return outcome, read_swaps(trained, out, smoke)


def write_model(run: Run, out: Path) -> Path | None:
    """Save a trained model in half precision, small enough for the explorer to ship; None if it is missing."""
    file = folder_of(run, out / "runs") / MODEL
    if not file.exists():
        return None
    return save(load(file).half(), out / f"{run.encoder.name}.safetensors", model_args=run.model.made_with())
