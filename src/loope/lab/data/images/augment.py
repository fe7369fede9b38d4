"""Transform images to tensors with timm, with a seed per sample for random transforms."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from timm.data import Mixup, create_transform
from timm.data.transforms import MaybeToTensor
from torch import Tensor
from torchvision.transforms import Compose, RandomHorizontalFlip

from loope.core.errors import one_of, require
from loope.core.grid import GridLike, as_grid
from loope.core.seeds import derive

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

    def transform(self, augment: str = "none") -> Compose:
        """Create timm's transform to `(3, H, W)` float32 for `augment`, one of `AUGMENTS`.

        Raises:
            LoopeError: for an unknown augmentation.
        """
        one_of("augmentation", augment, AUGMENTS)
        expected: dict[str, Any] = {
            "input_size": (3, *as_grid(self.size, "size")),
            "mean": self.mean,
            "std": self.std,
            "interpolation": self.interpolation,
            "color_jitter": None,
        }
        if augment in ("crop", "randaugment"):
            changes = RAND_AUGMENT if augment == "randaugment" else None
            training: Compose = create_transform(**expected, is_training=True, auto_augment=changes)
            return training
        every = create_transform(**expected, crop_pct=self.crop_pct).transforms
        if augment == "flip":
            cut = next(place for place, step in enumerate(every) if isinstance(step, MaybeToTensor))
            every.insert(cut, RandomHorizontalFlip())
        return Compose(every)


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


@contextmanager
def seeded(*purpose: object) -> Iterator[None]:
    """Seed the generators of Python, NumPy and torch, which timm uses, and restore them afterwards."""
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
