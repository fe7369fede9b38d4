"""Three-Cell: six bits per image. Samples and splits are the same for every run."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from loope.lab.data.batches import Batch, Source
from loope.lab.data.three_cell import ThreeCellSource
from loope.lab.engine.tasks import Bits
from loope.lab.experiments.experiment import Training
from loope.three_cell import ThreeCell
from loope.three_cell.metric import ThreeCellScore


class CentredSource(ThreeCellSource):
    """Three-Cell with pixels from -1 to 1."""

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield `(b, 3, H, W)` float32 images in -1..1 and `(b, 6)` float32 bits."""
        for images, bits in super().batches(epoch, start, share):
            yield images * 2 - 1, bits


class ThreeCellProbe(Training):
    """Train a classifier of the six bits."""

    task = Bits(ThreeCellScore)
    outputs = 6

    def source(self, part: str) -> Source:
        """Return the batches of a part, rendered on the device that trains."""
        data = ThreeCell(**self.run.data.options, seed=0, split=part)
        device = "cuda" if torch.cuda.is_available() else None
        train = part == "train"
        return CentredSource(data, self.recipe.batch_size, train=train, seed=self.run.seed, device=device)
