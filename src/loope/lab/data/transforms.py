"""Transforms of images and masks to tensors: timm's for classification, torchvision's for segmentation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from PIL.Image import Image
from timm.data import Mixup, create_transform
from timm.data.transforms import MaybeToTensor
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import RandomHorizontalFlip, v2

from loope.core.errors import one_of, require
from loope.core.grid import Grid, GridLike, as_grid
from loope.core.seeds import derive
from loope.segmentation.labels import VOID

INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")
RAND_AUGMENT = "rand-m9-mstd0.5-inc1"  # DeiT's
AUGMENTS = {
    "none": "resized and cut out of the middle, as for evaluation",
    "flip": "the same, mirrored half of the time",
    "crop": "a random part of the image, resized, and mirrored half of the time (timm's random resized crop)",
    "randaugment": f"the same, with two random changes of colour or shape (timm's {RAND_AUGMENT!r})",
}


@dataclass(frozen=True)
class Preparation:
    """Image preprocessing that a model expects; field names as in timm.

    Attributes:
        size: side length, or (height, width).
        mean: per-channel mean, for values in 0..1.
        std: per-channel standard deviation.
        crop_pct: centre crop for evaluation, as a share of the resized image's side.
        interpolation: one of `INTERPOLATIONS`.
    """

    size: GridLike = 224
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    crop_pct: float = 0.9
    interpolation: str = "bicubic"

    def __post_init__(self) -> None:
        as_grid(self.size, "size")
        one_of("interpolation", self.interpolation, INTERPOLATIONS)
        require(
            len(self.mean) == len(self.std) == 3 and min(self.std) > 0 and 0 < self.crop_pct <= 1,
            "`mean` and `std` must be three numbers each, `std` positive, and `crop_pct` in 0..1; got "
            f"{self.mean}, {self.std} and {self.crop_pct}.",
        )

    @classmethod
    def from_timm(cls, config: Mapping[str, Any]) -> Preparation:
        """Convert the result of `timm.data.resolve_model_data_config(model)`.

        Examples:
            >>> Preparation.from_timm({"input_size": (3, 240, 240), "mean": (0.5,) * 3, "std": (0.5,) * 3,
            ...                        "crop_pct": 0.875, "interpolation": "bicubic", "crop_mode": "center"}).size
            (240, 240)
        """
        shared = {key: config[key] for key in ("mean", "std", "crop_pct", "interpolation")}
        return cls(size=tuple(config["input_size"][1:]), **shared)


class ClassificationTransform:
    """Transform an image to `(3, H, W)` float32 with timm, and its label to an int64 scalar.

    Args:
        preparation: preprocessing that the model expects.
        augment: one of `AUGMENTS`.

    Raises:
        LoopeError: for an unknown augmentation.
    """

    def __init__(self, preparation: Preparation, augment: str = "none"):
        one_of("augmentation", augment, AUGMENTS)
        expected: dict[str, Any] = {
            "input_size": (3, *as_grid(preparation.size, "size")),
            "mean": preparation.mean,
            "std": preparation.std,
            "interpolation": preparation.interpolation,
            "color_jitter": None,
        }
        if augment in ("crop", "randaugment"):
            changes = RAND_AUGMENT if augment == "randaugment" else None
            self.image = create_transform(**expected, is_training=True, auto_augment=changes)
        else:
            self.image = create_transform(**expected, crop_pct=preparation.crop_pct)
        if augment == "flip":
            steps = self.image.transforms
            steps.insert([isinstance(step, MaybeToTensor) for step in steps].index(True), RandomHorizontalFlip())

    def __call__(self, image: Image, label: int) -> tuple[Tensor, Tensor]:
        return self.image(image), torch.tensor(label)


def mix(images: Tensor, labels: Tensor, classes: int, mixup: float, cutmix: float) -> tuple[Tensor, Tensor]:
    """Blend each image with its neighbour (0 with 1, 2 with 3, ...) by timm's mixup or cutmix.

    Neighbours stay together when a batch is shared by processes, as long as each share is even.

    Args:
        images: `(B, 3, H, W)` float32, with B even.
        labels: `(B,)` int64.
        classes: number of classes.
        mixup: alpha of mixup; 0 to disable.
        cutmix: alpha of cutmix; 0 to disable. With both, one is drawn per batch.

    Returns:
        Images, and `(B, classes)` float32 targets that sum to 1.
    """
    # timm blends the first image with the last, the second with the last but one, ...
    places = torch.arange(len(images))
    order = torch.cat((places[::2], places[1::2].flip(0)))
    mixing = Mixup(mixup, cutmix, label_smoothing=0.0, num_classes=classes)  # type: ignore[no-untyped-call]
    mixed, targets = mixing(images[order], labels[order])
    back = order.argsort()
    return mixed[back], targets[back]


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Augmentation of training images; the defaults are those of SETR and Segmenter.

    Attributes:
        scale: range of scales, relative to the size that just fits the crop.
        flip: probability of a horizontal flip.
        jitter: strength of contrast and saturation jitter; brightness uses a quarter of it, hue a tenth.

    Raises:
        LoopeError: if a number is out of range.
    """

    scale: tuple[float, float] = (0.5, 2.0)
    flip: float = 0.5
    jitter: float = 0.5

    def __post_init__(self) -> None:
        require(
            len(self.scale) == 2 and 0 < self.scale[0] <= self.scale[1],
            f"`scale` must be the least and the largest scale, both positive, got {self.scale}; use (0.5, 2.0).",
        )
        require(0 <= self.flip <= 1, f"`flip` must be from 0 to 1, got {self.flip}.")
        require(0 <= self.jitter <= 1, f"`jitter` must be from 0 to 1, got {self.jitter}.")


class SegmentationTransform:
    """Transform an image and its mask to `(3, H, W)` normalised float32 and `(H, W)` int64.

    Args:
        size: output size.
        mean: per-channel mean, in 0..1.
        std: per-channel standard deviation.
        augment: augmentation; None to only resize, for evaluation.
    """

    def __init__(self, size: Grid, mean: Sequence[float], std: Sequence[float], augment: Augment | None = None):
        steps: list[Any] = [v2.Resize(tuple(size), antialias=True)]
        if augment is not None:
            # Padding around a small image is zero after normalisation, and void in the mask.
            around = {tv_tensors.Image: [round(255 * value) for value in mean], tv_tensors.Mask: VOID}
            less, strength = augment.jitter / 4, augment.jitter
            steps = [
                v2.ScaleJitter(tuple(size), augment.scale, antialias=True),
                v2.RandomCrop(tuple(size), pad_if_needed=True, fill=around),
                v2.RandomHorizontalFlip(augment.flip),
                v2.ColorJitter(less, strength, strength, strength / 10),
            ]
        self.joint = v2.Compose(steps)
        self.finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))])

    def __call__(self, image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Transform an image, `(3, H, W)` uint8, and its mask, `(H, W)` uint8."""
        changed, classes = self.joint(tv_tensors.Image(image), tv_tensors.Mask(mask))
        pixels: Tensor = self.finish(changed).as_subclass(Tensor)
        return pixels, classes.as_subclass(Tensor).long()


@contextmanager
def seeded(*purpose: object) -> Iterator[None]:
    """Seed the generators of Python, NumPy and torch, which transforms draw from, and restore them afterwards."""
    seed = derive(*purpose)
    before = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which also seeds GPUs
    try:
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])
        torch.set_rng_state(before[2])
