"""Whole batches, made in a worker process: read, transformed, mixed. A worker remembers nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor
from torch.utils.data import Dataset

from loope.core.errors import LoopeError
from loope.lab.data.images.augment import Steps, mix, seeded
from loope.lab.data.images.collection import Images
from loope.lab.data.images.readers import BadImageError
from loope.lab.data.loader import BatchRequest


class ImageBatch(NamedTuple):
    """A batch, the images that could not be read (path and reason), and what made it impossible, if anything."""

    images: Tensor
    targets: Tensor
    bad: dict[str, str]
    error: str | None = None


@dataclass(frozen=True)
class ImageBatches(Dataset[ImageBatch]):
    """Makes batches; `batches[request]`, as torch's loaders ask their data sets.

    A bad image is replaced in training by the next good one of the data set, mostly of the same class; in evaluation it
    is left out, so that no other counts twice. Both follow from the files alone.
    """

    images: Images
    steps: Steps
    shape: tuple[int, int]
    seed: int
    train: bool
    mixup: float
    cutmix: float
    skip_bad_images: bool

    def __getitem__(self, request: BatchRequest) -> ImageBatch:
        try:
            return self._make(request)
        except LoopeError as error:  # raised again by the source: through torch's loader it would arrive as a traceback
            return ImageBatch(torch.empty(0), torch.empty(0), {}, str(error))

    def _make(self, request: BatchRequest) -> ImageBatch:
        bad: dict[str, str] = {}
        pictures, labels = [], []
        for index in request.indices:
            found = self._read(index, bad)
            if found is not None:
                picture, label = found
                # By the sample's own place: a stand-in for a bad image is not changed as it is in its own right.
                with seeded("augment", self.seed, request.epoch, index):
                    pictures.append(self.steps.rest(self.steps.fixed(picture)))
                labels.append(label)
        images = torch.stack(pictures) if pictures else torch.empty(0, 3, *self.shape)
        targets = torch.tensor(labels, dtype=torch.int64)
        if self.mixup or self.cutmix:
            with seeded("mix", self.seed, request.epoch, request.step):
                images, targets = mix(images, targets, len(self.images.classes), self.mixup, self.cutmix)
        return ImageBatch(images, targets, bad)

    def _read(self, index: int, bad: dict[str, str]) -> tuple[Image, int] | None:
        """The image, or what stands in for it, and its label; None to leave it out. Notes what is bad."""
        for step in range(len(self.images)):
            place = (index + step) % len(self.images)
            try:
                return self.images.reader.read(place), self.images.labels[place]
            except BadImageError as error:
                if not self.skip_bad_images:
                    raise
                bad[error.path] = error.reason
                if not self.train:
                    return None
        raise LoopeError(f"None of the {len(self.images)} images can be read, {next(iter(bad))} for one.")
