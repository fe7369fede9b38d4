"""Labelled images: a data set, or a part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from loope.core.errors import require
from loope.data.images.readers import Reader
from loope.data.images.splits import assign


@dataclass(frozen=True)
class Images:
    """Labelled images, not decoded yet.

    Attributes:
        reader: gives the pixels.
        labels: the class of each image, as its place in `classes`.
        official: "train" or "test" for each image, as published.
        classes: their names.
    """

    reader: Reader
    labels: Sequence[int]
    official: Sequence[str]
    classes: Sequence[str]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Sequence[int]) -> Images:
        """Some of the images."""
        return Images(
            self.reader.take(indices),
            [self.labels[index] for index in indices],
            [self.official[index] for index in indices],
            self.classes,
        )

    def digest(self) -> str:
        """Twelve letters that are the same for the same images (by name, not by pixel) and labels in the same order."""
        lines = (f"{name} {label}\n" for name, label in zip(self.reader.names, self.labels, strict=True))
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]

    def fingerprint(self) -> dict[str, str]:
        """What the images are, by name, label and content; see `loope.data.fingerprint`."""
        labels = [self.classes[label] for label in self.labels]
        return self.reader.fingerprint(labels)

    def split(self, how: str = "80-10-10", seed: int = 0) -> dict[str, Images]:
        """Parts "train", "valid" and "test" that share no image and leave none out; each has its share of every class.

        Args:
            how: percentages of all images, as "80-10-10"; or "official" for the published test part, with a tenth of
                the published training part, by seed, for validation.
            seed: what the parts follow from.

        Raises:
            LoopeError: if it is no such split, or leaves a part empty.
        """
        parts = assign(how, seed, self.reader.names, self.labels, self.official)
        for part, indices in parts.items():
            require(
                len(indices) > 0,
                f"The split {how!r} leaves no image for {part!r} of {len(self)}; use larger shares or more images.",
            )
        return {part: self.take(indices) for part, indices in parts.items()}
