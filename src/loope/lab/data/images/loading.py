"""Make whole batches in worker processes: read, transform and mix images. Workers keep no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms import Compose

from loope.core.errors import LoopeError
from loope.lab.data.images.augment import mix, seeded
from loope.lab.data.images.collection import Images
from loope.lab.data.images.readers import BadImageError
from loope.lab.data.loader import BatchRequest


class ImageBatch(NamedTuple):
    """A batch, the unreadable images (path and reason), and the error if it could not be made."""

    images: Tensor
    targets: Tensor
    bad: dict[str, str]
    error: str | None = None


@dataclass(frozen=True)
class ImageBatches(Dataset[ImageBatch]):
    """Make the batch of a request: `batches[request]`.

    In training, an unreadable image is replaced by the next readable one, usually of the same class. In evaluation it
    is skipped, so that no image counts twice.
    """

    images: Images
    transform: Compose
    shape: tuple[int, int]
    seed: int
    train: bool
    mixup: float
    cutmix: float
    skip_bad_images: bool

    def __getitem__(self, request: BatchRequest) -> ImageBatch:
        try:
            return self._make(request)
        except LoopeError as error:  # raised by the source: torch's loader would turn it into a traceback
            return ImageBatch(torch.empty(0), torch.empty(0), {}, str(error))

    def _make(self, request: BatchRequest) -> ImageBatch:
        bad: dict[str, str] = {}
        pictures, labels = [], []
        for index in request.indices:
            found = self._read(index, bad)
            if found is not None:
                picture, label = found
                # Seeded by the original index, so that a replacement is augmented differently than its own sample.
                with seeded("augment", self.seed, request.epoch, index):
                    pictures.append(self.transform(picture))
                labels.append(label)
        images = torch.stack(pictures) if pictures else torch.empty(0, 3, *self.shape)
        targets = torch.tensor(labels, dtype=torch.int64)
        if self.mixup or self.cutmix:
            with seeded("mix", self.seed, request.epoch, request.step):
                images, targets = mix(images, targets, len(self.images.classes), self.mixup, self.cutmix)
        return ImageBatch(images, targets, bad)

    def _read(self, index: int, bad: dict[str, str]) -> tuple[Image, int] | None:
        """Return the image or its replacement, with the label; None to skip it. Records unreadable images in `bad`."""
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
