"""Labelled images: a data set or a split of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from loope.core.errors import require
from loope.lab.data.images.readers import Reader
from loope.lab.data.images.splits import assign


@dataclass(frozen=True)
class Images:
    """Labelled images, decoded on access.

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
        labels = [self.classes[label] for label in self.labels]
        return self.reader.fingerprint(labels)

    def split(self, how: str = "80-10-10", seed: int = 0) -> dict[str, Images]:
        """Split into disjoint parts "train", "valid" and "test", stratified by class.

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
