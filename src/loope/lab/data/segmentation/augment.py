"""Augment images and masks: scale, crop, flip and colour jitter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from loope.core.errors import require
from loope.core.grid import Grid
from loope.core.seeds import derive
from loope.segmentation.labels import VOID


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


class Transform:
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
        finish = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))]
        self.joint = v2.Compose(steps)
        self.finish = v2.Compose(finish)
        self.wrap = tv_tensors.Image, tv_tensors.Mask

    def __call__(self, image: Tensor, mask: Tensor, *purpose: object) -> tuple[Tensor, Tensor]:
        """Transform an image and its mask, seeded by `purpose`; torch's global generator is not changed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive("augment", *purpose))
            changed, classes = self.joint(self.wrap[0](image), self.wrap[1](mask))
        pixels: Tensor = self.finish(changed).as_subclass(Tensor)
        return pixels, classes.as_subclass(Tensor).long()
