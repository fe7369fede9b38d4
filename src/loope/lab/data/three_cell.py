"""Three-Cell as a source of training batches, rendered batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loope.lab.data import fingerprint
from loope.lab.data.batches import Batch, Source
from loope.lab.data.sampler import BatchSampler
from loope.three_cell.dataset import ThreeCell


class ThreeCellSource(Source):
    """Batches of a Three-Cell data set.

    Args:
        data: the samples.
        batch_size: global batch size over all processes.
        train: shuffle every epoch and drop the last incomplete batch.
        seed: seed of the order.
        device: device on which images are rendered.

    Examples:
        >>> source = ThreeCellSource(ThreeCell(size=100, grid=7, cell=2), batch_size=32, train=True)
        >>> images, bits = next(source.batches(epoch=0, start=1))
        >>> source.steps, images.shape, bits.shape, bits.dtype
        (3, torch.Size([32, 3, 14, 14]), torch.Size([32, 6]), torch.float32)
    """

    def __init__(
        self, data: ThreeCell, batch_size: int = 64, *, train: bool = False, seed: int = 0, device: Any = None
    ):
        self.data = data
        self.device = device
        self._sampler = BatchSampler(len(data), batch_size, train=train, seed=seed)
        self.samples = self._sampler.samples
        self.steps = self._sampler.steps

    def fingerprint(self) -> dict[str, str]:
        """Return a hash of cells, grid and cell size."""
        return {"content": fingerprint.of([self.data.cells.tolist(), tuple(self.data.grid), self.data.cell])}

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield `(b, 3, H, W)` float32 images in 0..1 and `(b, 6)` float32 bits."""
        for chosen in self._sampler.batches(epoch, start, share):
            yield (
                self.data.render(self.data.cells[chosen], self.device),
                self.data.labels[chosen].float().to(self.device),
            )
