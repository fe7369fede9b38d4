"""Training batches of segmentation data; see `loope.lab.data.batches.Source`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.lab.data import fingerprint
from loope.lab.data.batches import Batch, Source
from loope.lab.data.loader import BatchRequest, load_batches
from loope.lab.data.sampler import BatchSampler
from loope.lab.data.segmentation.augment import Augment, Transform
from loope.lab.data.segmentation.pairs import Pairs

HALF = (0.5, 0.5, 0.5)


class SegmentationSource(Source):
    """Batches of images and masks, which depend only on the seed, the epoch and the step.

    Args:
        data: images `(3, H, W)` uint8 with masks `(H, W)` uint8: `CamVid`, `Cityscapes`, or a subset of one.
        batch_size: global batch size over all processes.
        size: (height, width) of the model's input.
        mean: per-channel mean that the backbone expects, in 0..1.
        std: per-channel standard deviation.
        train: shuffle every epoch and drop the last incomplete batch.
        augment: augmentation of training images; None to only resize.
        seed: seed of order and augmentation.
        workers: worker processes; 0 reads in this process.

    Attributes:
        samples: images per epoch.
        steps: global batches per epoch.

    Raises:
        LoopeError: if there is not a single batch, or an argument is invalid; from `batches`, if a file is damaged.
    """

    def __init__(
        self,
        data: Dataset[tuple[Tensor, Tensor]],
        batch_size: int,
        size: GridLike,
        *,
        mean: Sequence[float] = HALF,
        std: Sequence[float] = HALF,
        train: bool = False,
        augment: Augment | None = None,
        seed: int = 0,
        workers: int = 0,
    ):
        require(train or augment is None, "Only training images are augmented; use train=True, or leave out `augment`.")
        self._sampler = BatchSampler(len(data), batch_size, train=train, seed=seed)  # type: ignore[arg-type]
        self.samples = self._sampler.samples
        self.steps = self._sampler.steps
        self.workers = as_size(workers, "workers", least=0)
        pixels = as_grid(size, "size")
        self._batches = SegmentationBatches(data, Transform(pixels, mean, std, augment), pixels, seed)

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of image and mask files; empty for synthetic data."""
        files = files_of(self._batches.data)
        if not files:
            return {}
        folder = os.path.commonpath([path.parent for path in files])
        return fingerprint.of_files(Path(folder), [os.path.relpath(path, folder) for path in files])

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield `(b, 3, H, W)` float32 images and `(b, H, W)` int64 classes, 255 for void.

        Raises:
            LoopeError: if a file is damaged, an image and its mask differ in size, or a mask has an unknown value.
        """
        slices = self._sampler.batches(epoch, start, share)
        requests = (BatchRequest(epoch, step, indices.tolist()) for step, indices in enumerate(slices, start))
        for made in load_batches(self._batches, requests, self.workers):
            if made.error is not None:
                raise LoopeError(made.error)
            yield made.images, made.masks


def files_of(data: Dataset[tuple[Tensor, Tensor]]) -> list[Path]:
    """Return the image and mask files, sample by sample; empty for synthetic data."""
    return [path for pair in _pairs(data) for path in pair]


def _pairs(data: Dataset[tuple[Tensor, Tensor]]) -> list[tuple[Path, Path]]:
    if isinstance(data, Pairs):
        return data.pairs
    if isinstance(data, ConcatDataset):
        return [pair for part in data.datasets for pair in _pairs(part)]
    if isinstance(data, Subset):
        whole = _pairs(data.dataset)
        return [whole[index] for index in data.indices] if whole else []
    return []


class SegmentationBatch(NamedTuple):
    """A batch, or the error if it could not be made; the source raises it."""

    images: Tensor
    masks: Tensor
    error: str | None = None


class SegmentationBatches(Dataset[SegmentationBatch]):
    """Make the batch of a request, in this process or a worker; keeps no state."""

    def __init__(self, data: Dataset[tuple[Tensor, Tensor]], transform: Transform, size: Grid, seed: int):
        self.data = data
        self.transform = transform
        self.size = size
        self.seed = seed

    def __getitem__(self, request: BatchRequest) -> SegmentationBatch:
        try:
            made = [self.transform(*self.data[index], self.seed, request.epoch, index) for index in request.indices]
        except LoopeError as error:
            return SegmentationBatch(torch.empty(0), torch.empty(0), str(error))
        if not made:
            return SegmentationBatch(torch.empty(0, 3, *self.size), torch.empty(0, *self.size, dtype=torch.int64))
        images, masks = zip(*made, strict=True)
        return SegmentationBatch(torch.stack(images), torch.stack(masks))
