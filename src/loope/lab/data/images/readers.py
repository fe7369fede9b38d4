"""Read pixels from files, decoded on access, or from memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from PIL.Image import Image, fromarray
from torch import Tensor

from loope.core.errors import LoopeError
from loope.core.images import ImageError, read_image
from loope.core.limits import MOST_TRAINING_PIXELS
from loope.lab.data import fingerprint


class BadImageError(LoopeError):
    """An image cannot be read; the message names it and the reason."""

    def __init__(self, path: str, reason: str):
        super().__init__(
            f"Cannot read the image {path}: {reason}. Put a good copy in its place, or use skip_bad_images=True "
            "(--skip-bad-images) to count and skip such images."
        )
        self.path = path
        self.reason = reason


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
