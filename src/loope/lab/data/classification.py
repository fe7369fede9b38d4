"""Image classification: labelled images as a data set, and training batches of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from PIL.Image import Image, fromarray
from torch import Tensor
from torch.utils.data import Dataset

from loope.core.errors import require
from loope.core.grid import as_grid
from loope.core.images import ImageError, read_image
from loope.core.limits import MOST_TRAINING_PIXELS
from loope.lab.data import fingerprint
from loope.lab.data.loader import BadImageError, BatchMaker, LoadedSource
from loope.lab.data.sampler import BatchSampler
from loope.lab.data.splits import assign
from loope.lab.data.transforms import ClassificationTransform, Preparation, mix


@dataclass(frozen=True)
class Files:
    """Image files, named by their path relative to a folder."""

    folder: Path
    names: Sequence[str]

    def read(self, index: int) -> Image:
        """Read an image, in RGB.

        Raises:
            BadImageError: if it cannot be read.
        """
        path = self.folder / self.names[index]
        try:
            return read_image(path, most=MOST_TRAINING_PIXELS)
        except ImageError as error:
            raise BadImageError(str(path), str(error)) from error

    def check(self) -> None:
        """Read every image once.

        Raises:
            BadImageError: naming the first that cannot be read.
        """
        with ThreadPoolExecutor(half_the_cores()) as pool:  # decoding releases the lock of the interpreter
            try:
                for _ in pool.map(self._can_be_read, range(len(self.names))):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _can_be_read(self, index: int) -> None:
        try:
            self.read(index)
        except BadImageError as error:
            raise BadImageError(error.path, error.reason, "remove it") from error

    def take(self, indices: Sequence[int]) -> Files:
        """Return a subset of the files."""
        return Files(self.folder, [self.names[index] for index in indices])

    def fingerprint(self, labels: Sequence[str]) -> dict[str, str]:
        """Return the fingerprint of files and labels."""
        return fingerprint.of_files(self.folder, self.names, labels)


@dataclass(frozen=True)
class Memory:
    """Decoded images in one tensor, which worker processes share without copying.

    Attributes:
        names: names of the images.
        pixels: `(n, H, W, 3)` uint8, contiguous.
    """

    names: Sequence[str]
    pixels: Tensor

    def read(self, index: int) -> Image:
        """Return an image, in RGB."""
        return fromarray(self.pixels[index].numpy())

    def take(self, indices: Sequence[int]) -> Memory:
        """Return a copy of some images."""
        return Memory([self.names[index] for index in indices], self.pixels[list(indices)])

    def fingerprint(self, labels: Sequence[str]) -> dict[str, str]:
        """Return the fingerprint of pixels and labels."""
        size = tuple(self.pixels.shape[1:3])
        digests = (hashlib.sha256(image.numpy()).hexdigest() for image in self.pixels)
        return {"content": fingerprint.of([*((name, size) for name in self.names), *labels, *digests])}


Reader: TypeAlias = Files | Memory


@dataclass(frozen=True)
class Images(Dataset[tuple[Image, int]]):
    """Labelled images, decoded on access: `images[0]` is the first one, in RGB, and its label.

    Attributes:
        reader: reads the pixels.
        labels: class of each image, an index into `classes`.
        official: published split of each image, "train" or "test".
        classes: names of the classes.
    """

    reader: Reader
    labels: Sequence[int]
    official: Sequence[str]
    classes: Sequence[str]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Image, int]:
        """Read an image and its label.

        Raises:
            BadImageError: if it cannot be read.
        """
        return self.reader.read(index), self.labels[index]

    def take(self, indices: Sequence[int]) -> Images:
        """Return a subset of the images."""
        return Images(
            self.reader.take(indices),
            [self.labels[index] for index in indices],
            [self.official[index] for index in indices],
            self.classes,
        )

    def digest(self) -> str:
        """Return a hash of names and labels, in order, of 12 hex digits; pixels are not read."""
        lines = (f"{name} {label}\n" for name, label in zip(self.reader.names, self.labels, strict=True))
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of names, labels and contents; see `loope.lab.data.fingerprint`."""
        return self.reader.fingerprint([self.classes[label] for label in self.labels])

    def split(self, how: str = "80-10-10", seed: int = 0) -> dict[str, Images]:
        """Split into disjoint parts "train", "val" and "test", stratified by class.

        Args:
            how: percentages of all images, as "80-10-10"; or "official" for the published test split, with a tenth of
                the published training split held out for validation.
            seed: seed of the split.

        Raises:
            LoopeError: for an invalid split, or one that leaves a part empty.
        """
        parts = assign(how, seed, self.reader.names, self.labels, self.official)
        for part, indices in parts.items():
            require(
                len(indices) > 0,
                f"The split {how!r} leaves no image for {part!r} of {len(self)}; use larger shares or more images.",
            )
        return {part: self.take(indices) for part, indices in parts.items()}


class ImageSource(LoadedSource):
    """Batches of images: `(b, 3, H, W)` float32, with `(b,)` int64 classes, or `(b, classes)` float32 when mixed.

    A batch depends only on the seed, the epoch and the step, not on the number of workers or processes, or on earlier
    batches.

    Args:
        images: a data set or a split of one, from `load_images`.
        batch_size: global batch size over all processes.
        preparation: preprocessing that the model expects.
        train: shuffle every epoch, drop the last incomplete batch, and augment.
        seed: seed of order, augmentation and mixing.
        augment: augmentation of training images, one of `loope.lab.data.transforms.AUGMENTS`.
        mixup: alpha of timm's mixup; 0 to disable.
        cutmix: alpha of timm's cutmix; 0 to disable.
        workers: worker processes; 0 decodes in this process; None for half the cores, at most 8.
        skip_bad_images: skip and count unreadable images instead of raising an error.

    Attributes:
        samples: images per epoch.
        steps: global batches per epoch.
        bad: reasons of unreadable images so far, by path.

    Raises:
        LoopeError: if there is not a single batch, or an argument is invalid; from `batches`, for an unreadable image.
    """

    def __init__(
        self,
        images: Images,
        batch_size: int = 64,
        preparation: Preparation | None = None,
        *,
        train: bool = False,
        seed: int = 0,
        augment: str = "none",
        mixup: float = 0.0,
        cutmix: float = 0.0,
        workers: int | None = None,
        skip_bad_images: bool = False,
    ):
        preparation = preparation or Preparation()
        mixed = bool(mixup or cutmix)
        require(
            train or (augment == "none" and not mixed),
            f"Only training images are augmented and mixed; use train=True, or leave out augment={augment!r}, "
            f"mixup={mixup} and cutmix={cutmix}.",
        )
        require(min(mixup, cutmix) >= 0, f"`mixup` and `cutmix` must be 0 or more, got {mixup} and {cutmix}.")
        self.images = images
        maker = BatchMaker(
            images,
            ClassificationTransform(preparation, augment),
            empty=(torch.empty(0, 3, *as_grid(preparation.size, "size")), torch.empty(0, dtype=torch.int64)),
            seed=seed,
            train=train,
            mix=partial(mix, classes=len(images.classes), mixup=mixup, cutmix=cutmix) if mixed else None,
            skip_bad_images=skip_bad_images,
        )
        sampler = BatchSampler(len(images), batch_size, train=train, seed=seed, group=2 if mixed else 1)
        super().__init__(sampler, maker, half_the_cores() if workers is None else workers)

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of names, labels and contents."""
        return self.images.fingerprint()


def half_the_cores() -> int:
    """Return half the number of processor cores, from 1 to 8."""
    return max(1, min(8, (os.cpu_count() or 1) // 2))
