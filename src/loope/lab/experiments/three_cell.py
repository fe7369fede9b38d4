"""Three-Cell: six bits per image. Samples and splits are the same for every run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from loope.lab.data.batches import Batch, Source
from loope.lab.data.three_cell import ThreeCellSource
from loope.lab.engine.evaluation import evaluate
from loope.lab.engine.tasks import Bits
from loope.lab.experiments.experiment import Training, numbers
from loope.surgery.attach import resize
from loope.three_cell import ThreeCell
from loope.three_cell.metric import ThreeCellScore

OTHER_SIZE = 10_000  # samples of all splits of another grid


class CentredSource(ThreeCellSource):
    """Three-Cell with pixels from -1 to 1."""

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield `(b, 3, H, W)` float32 images in -1..1 and `(b, 6)` float32 bits."""
        for images, bits in super().batches(epoch, start, share):
            yield images * 2 - 1, bits


class ThreeCellProbe(Training):
    """Train a classifier of the six bits.

    The data's option `other_grids` lists sides of grids on which the trained model is tested too, without training
    there: the scores get names such as "average_14x14".
    """

    task = Bits(ThreeCellScore)
    outputs = 6

    def source(self, part: str) -> Source:
        """Return the batches of a part, rendered on the device that trains."""
        options = {name: value for name, value in self.run.data.options.items() if name != "other_grids"}
        return self._batches(part, options)

    def _batches(self, part: str, options: dict[str, Any]) -> Source:
        data = ThreeCell(**options, seed=0, split=part)
        device = "cuda" if torch.cuda.is_available() else None
        train = part == "train"
        return CentredSource(data, self.recipe.batch_size, train=train, seed=self.run.seed, device=device)

    def more_scores(self, model: nn.Module) -> dict[str, float]:
        """Score the model on the test part of other grids, if the data asks for them."""
        found: dict[str, float] = {}
        cell = self.run.data.options["cell"]
        for side in self.run.data.options.get("other_grids", ()):
            other = copy.deepcopy(model)
            resize(other, (side * cell, side * cell))
            source = self._batches("test", {"size": OTHER_SIZE, "grid": side, "cell": cell})
            scores = numbers(evaluate(other, self.task, source, precision=self.recipe.precision))
            found |= {f"{name}_{side}x{side}": value for name, value in scores.items()}
        return found
