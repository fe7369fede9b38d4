"""Read and check pairs of image and mask files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2.functional import pil_to_tensor

from loope.core.errors import LoopeError, require
from loope.core.images import ImageError, read_image
from loope.core.limits import MOST_TRAINING_PIXELS
from loope.segmentation.labels import Labels

UNKNOWN = -1


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """Data set of image and mask files, the base of Cityscapes and CamVid.

    Args:
        pairs: image and mask files.
        labels: classes.
        values: maps each value of a mask to its class, or to 255 for void.

    Raises:
        LoopeError: if an image or a mask is missing.
    """

    def __init__(self, pairs: Sequence[tuple[Path, Path]], labels: Labels, values: Mapping[int, int]):
        self.pairs = list(pairs)
        self.labels = labels
        self.classes_of = torch.full((256,), UNKNOWN)
        self.classes_of[list(values)] = torch.tensor(list(values.values()))
        strange = [image for image, _ in self.pairs if not image.is_file()]
        if strange:
            raise LoopeError(f"{strange[0]} is no file; put the image there, or take it away.")
        missing = [mask for _, mask in self.pairs if not mask.is_file()]
        if missing:
            raise LoopeError(
                f"{len(missing)} of {len(self.pairs)} images have no mask; the first would be {missing[0]}."
            )

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Read an image, `(3, H, W)` uint8, and its mask, `(H, W)` uint8 classes with 255 for void.

        Raises:
            LoopeError: if a file is damaged, the sizes differ, or the mask has an unknown value.
        """
        image, mask = (_read(path, mode) for path, mode in zip(self.pairs[index], ("RGB", None), strict=True))
        require(
            image.shape[1:] == mask.shape[1:],
            f"{self.pairs[index][0]} is {image.shape[1]}x{image.shape[2]}, but its mask {self.pairs[index][1]} is "
            f"{mask.shape[1]}x{mask.shape[2]}; an image and its mask must have the same size.",
        )
        classes = self.classes_of[mask[0].long()]
        if bool((classes == UNKNOWN).any()):
            strange = sorted(set(mask[0][classes == UNKNOWN].tolist()))
            known = torch.nonzero(self.classes_of != UNKNOWN).flatten().tolist()
            raise LoopeError(
                f"{self.pairs[index][1]} has the values {strange[:5]}, which {self.labels.name} does not know; its "
                f"masks have {known[0]} to {known[-1]}."
            )
        return image, classes.to(torch.uint8)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} images, {len(self.labels)} classes)"


def folder_of(name: str, root: str | Path | None, how: str) -> Path:
    """Return the folder of a data set below `root`, or below `LOOPE_DATA`.

    Raises:
        LoopeError: if neither is given; `how` explains how to get the data.
    """
    place = root or os.environ.get("LOOPE_DATA")
    if not place:
        raise LoopeError(f"No folder with data sets is known: give root= or set LOOPE_DATA. {how.format(root='DATA')}")
    return Path(place) / name


def _read(path: Path, mode: str | None) -> Tensor:
    """Read `(channels, H, W)` uint8; with mode None, as for masks, values are kept as they are."""
    try:
        picture = read_image(path, mode, most=MOST_TRAINING_PIXELS)
    except ImageError as error:
        raise LoopeError(f"{path} cannot be read as an image: {error}.") from None
    require(
        mode is not None or picture.mode in ("L", "P"),
        f"{path} is no mask: it has mode {picture.mode}, but masks have one byte a pixel, the class.",
    )
    found: Tensor = pil_to_tensor(picture)
    return found
