"""The demo's swap: other encoders in the ViT that was trained with `sincos2d`, without labels.

The vectors of the trained encoder become the model's own position table, as in any pretrained ViT. An encoder that can
imitate a table is fitted to it; one that cannot learns to agree with the original on images of the training part.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.files import write_atomic
from loope.core.plain import to_json
from loope.lab.engine.evaluation import evaluate
from loope.lab.experiments.experiment import numbers
from loope.lab.experiments.results import MODEL, folder_of
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run
from loope.lab.experiments.three_cell import ThreeCellProbe
from loope.surgery.attach import attach, detach
from loope.surgery.checkpoint import load
from loope.surgery.find import sole_attachment
from loope.surgery.transfer import transfer

SWAP = "swap.json"
TRAINED = "sincos2d"
STEPS = {"fourier": 0, "rope_mixed": 800}  # of the hand-over; 0 for an encoder that is fitted
# Small batches and a high rate suit a small model: 600 batches of 32 gave 3 points more than 300 of 64 (`rope_axial`).
BATCH, LR = 32, 4e-3


def swap_encoders(text: str, runs: str, smoke: bool) -> None:
    """Swap the encoder of a trained run, and write the scores beside its result, unless they are there.

    Takes plain arguments and returns nothing, so that any executor can run it.

    Args:
        text: the run, as JSON; it is done.
        runs: the folder of all runs.
        smoke: hand over in two steps.
    """
    run = Run.from_json(text)
    folder = folder_of(run, Path(runs))
    if read_swaps(run, Path(runs), smoke) is not None:
        return
    torch.manual_seed(run.seed)
    probe = ThreeCellProbe(run.with_recipe(batch_size=BATCH), Settings())
    original = with_own_table(load(folder / MODEL))

    def score(model: nn.Module) -> dict[str, float]:
        return numbers(evaluate(model, probe.task, probe.sources["test"]))

    found: dict[str, Any] = {"settings": _settings(smoke), "original": score(original), "swaps": {}}
    for name, steps in _settings(smoke)["steps"].items():
        naive = score(attach(copy.deepcopy(original), name))
        began = time.process_time()
        model = attach(copy.deepcopy(original), name, init="own")
        if steps:
            # Half of two blocks is too little: 84 % in 14 seconds with the default depth, 96 to 97 % in 33 with both.
            transfer(model, _images(probe), steps=steps, lr=LR, depth=1, multi_label=True)
        seconds = time.process_time() - began
        found["swaps"][name] = {"steps": steps, "processor_seconds": seconds, "naive": naive, "swapped": score(model)}
    write_atomic(folder / SWAP, to_json(found, indent=1) + "\n")


def read_swaps(run: Run, runs: Path, smoke: bool) -> dict[str, Any] | None:
    """Return the scores of the swaps of a run; None if they are missing or were made with other settings."""
    try:
        found = json.loads((folder_of(run, runs) / SWAP).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("settings") == _settings(smoke) else None


@torch.no_grad()
def with_own_table(model: nn.Module) -> nn.Module:
    """Detach the additive encoder of a ViT without prefix tokens, and make its vectors the ViT's own table."""
    (encoder,) = sole_attachment(model).encoders_of(0)
    vectors = encoder(None)
    detach(model)
    table: Tensor = model.pos_embed  # type: ignore[assignment]
    table.copy_(vectors)
    return model


def _settings(smoke: bool) -> dict[str, Any]:
    return {
        "steps": {name: min(steps, 2) if smoke else steps for name, steps in STEPS.items()},
        "batch": BATCH,
        "lr": LR,
    }


def _images(probe: ThreeCellProbe) -> Iterator[Tensor]:
    """Yield batches of training images without end, and without their labels."""
    for epoch in count():
        for images, _ in probe.sources["train"].batches(epoch):
            yield images
