"""Read pixels from files, decoded on access, or from memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import torch
from PIL.Image import Image, fromarray
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.images import ImageError, read_image
from loope.core.limits import MOST_TRAINING_PIXELS
from loope.lab.data import fingerprint

MOST_MEMORY = 4 * 1024**3  # bytes of decoded images that are kept at most
READ_AT_ONCE = 256


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
        bad: path and reason of unreadable images, by name.
    """

    names: Sequence[str]
    pixels: Tensor
    starts: Sequence[int]
    sizes: Sequence[tuple[int, int]]
    bad: dict[str, tuple[str, str]] = field(default_factory=dict)

    def read(self, index: int) -> Image:
        """Return an image, in RGB.

        Raises:
            BadImageError: if it could not be read.
        """
        if self.names[index] in self.bad:
            raise BadImageError(*self.bad[self.names[index]])
        start, (height, width) = self.starts[index], self.sizes[index]
        return fromarray(self.pixels[start : start + 3 * height * width].view(height, width, 3).numpy())

    def take(self, indices: Sequence[int]) -> Memory:
        """Return a subset of the images, sharing the tensor."""
        return Memory(
            [self.names[index] for index in indices],
            self.pixels,
            [self.starts[index] for index in indices],
            [self.sizes[index] for index in indices],
            self.bad,
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


def in_memory(reader: Reader, change: Callable[[Image], Image]) -> Memory:
    """Read all images, apply `change`, and keep the results in memory.

    Raises:
        LoopeError: if they take more than `MOST_MEMORY`.
    """
    content = bytearray()
    starts: list[int] = []
    sizes: list[tuple[int, int]] = []
    bad: dict[str, tuple[str, str]] = {}

    def load(index: int) -> Image | BadImageError:
        try:
            return change(reader.read(index))
        except BadImageError as error:
            return error

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoders release the GIL
        for first in range(0, len(reader.names), READ_AT_ONCE):
            names = reader.names[first : first + READ_AT_ONCE]
            for name, image in zip(names, pool.map(load, range(first, first + len(names))), strict=True):
                starts.append(len(content))
                if isinstance(image, BadImageError):
                    bad[name] = image.path, image.reason
                    sizes.append((0, 0))
                else:
                    content += image.tobytes()
                    sizes.append((image.height, image.width))
            require(
                len(content) <= MOST_MEMORY,
                f"{len(starts):,} of {len(reader.names):,} images take {len(content) / 1e9:.1f} GB of memory, and at "
                f"most {MOST_MEMORY / 1e9:.1f} GB are kept there; use cache=False.",
            )
    return Memory(reader.names, torch.frombuffer(content, dtype=torch.uint8), starts, sizes, bad)
