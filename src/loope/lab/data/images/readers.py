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
        pixels: `(bytes,)` uint8; an image takes `height x width x 3` of them.
        starts: offset of each image.
        sizes: (height, width) of each.
    """

    names: Sequence[str]
    pixels: Tensor
    starts: Sequence[int]
    sizes: Sequence[tuple[int, int]]

    def read(self, index: int) -> Image:
        """Return an image, in RGB."""
        start, (height, width) = self.starts[index], self.sizes[index]
        return fromarray(self.pixels[start : start + 3 * height * width].view(height, width, 3).numpy())

    def take(self, indices: Sequence[int]) -> Memory:
        """Return a subset of the images, sharing the tensor."""
        return Memory(
            [self.names[index] for index in indices],
            self.pixels,
            [self.starts[index] for index in indices],
            [self.sizes[index] for index in indices],
        )

    def fingerprint(self, labels: Sequence[str]) -> dict[str, str]:
        """Return the fingerprint of pixels and labels."""
        pixels = memoryview(self.pixels.numpy())  # type: ignore[arg-type]
        digests = (
            hashlib.sha256(pixels[start : start + 3 * height * width]).hexdigest()
            for start, (height, width) in zip(self.starts, self.sizes, strict=True)
        )
        return {"content": fingerprint.of([*zip(self.names, self.sizes, strict=True), *labels, *digests])}


Reader: TypeAlias = Files | Memory
