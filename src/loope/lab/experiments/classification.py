"""Photographs with one class each, or noise for smoke tests."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

import torch

from loope.core.errors import require
from loope.lab.data.batches import Source
from loope.lab.data.catalog import how_to_get, load_images
from loope.lab.data.classification import Images, ImageSource, Memory
from loope.lab.data.folders import read_folders
from loope.lab.engine.tasks import Classification, Task
from loope.lab.experiments.experiment import Training
from loope.lab.experiments.timm_models import preparation

NOISE_SIDE = 48  # pixels


class ImageClassification(Training):
    """Train a classifier of images."""

    def find_data(self) -> None:
        """Find the images, without decoding them."""
        self._images()

    def _images(self) -> Images:
        options, settings = self.run.data.options, self.settings
        if self.run.data.name == "fake":
            return noise(options["size"], options["classes"])
        if "classes" not in options:
            whole = options.get("test") == "all"
            return load_images(self.run.data.name, settings.data, download=settings.download, more=whole)
        root = Path(settings.data or os.environ.get("LOOPE_DATA") or "DATA")
        require((root / "imagenet").is_dir(), f"ImageNet-1k is not in {root}. {how_to_get('imagenet', root)}")
        return read_folders(root / "imagenet", "train", "val", options["classes"])

    @cached_property
    def parts(self) -> dict[str, Images]:
        """The images of each part, the same for every seed."""
        options = self.run.data.options
        parts = self._images().split(options.get("split", "80-10-10"), seed=0)
        share = options.get("per_class")
        if share is None:
            return parts
        # A quarter for validation, which is evaluated every epoch.
        most = {"train": share, "val": max(1, share // 4), "test": share}
        if options.get("test") == "all":
            del most["test"]
        return {name: _first_of_each_class(part, most[name]) if name in most else part for name, part in parts.items()}

    @cached_property
    def outputs(self) -> int:  # type: ignore[override]
        """Number of classes."""
        return len(self.parts["train"].classes)

    @cached_property
    def task(self) -> Task:  # type: ignore[override]
        """Cross entropy and accuracies."""
        return Classification(self.outputs, self.recipe.label_smoothing)

    def source(self, part: str) -> Source:
        """Return the batches of a part, prepared as the model expects."""
        recipe, options = self.recipe, self.run.data.options
        size = options.get("image_size", self.run.model.options.get("img_size"))
        train = part == "train"
        return ImageSource(
            self.parts[part],
            batch_size=recipe.batch_size,
            preparation=preparation(self.run.model.name, size),
            seed=self.run.seed,
            workers=self.settings.workers,
            skip_bad_images=options.get("skip_bad_images", False),
            train=train,
            augment=recipe.augment if train else "none",
            mixup=recipe.mixup if train else 0.0,
            cutmix=recipe.cutmix if train else 0.0,
        )

    def digests(self) -> dict[str, str]:
        """Identify the images of each part."""
        return {name: part.digest() for name, part in self.parts.items()}


def noise(size: int, classes: int) -> Images:
    """Create `size` noise images in `classes` classes, always the same."""
    shape = (size, NOISE_SIDE, NOISE_SIDE, 3)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = [place % classes for place in range(size)]
    reader = Memory([f"noise {place}" for place in range(size)], pixels)
    return Images(reader, labels, ["train"] * size, [f"class {label}" for label in range(classes)])


def _first_of_each_class(part: Images, most: int) -> Images:
    """Keep the first `most` images per class."""
    seen: dict[int, int] = {}
    chosen = []
    for place, label in enumerate(part.labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] <= most:
            chosen.append(place)
    return part.take(chosen)
