"""Load the sources and the task of a run from the name of its data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from loope.core.errors import one_of, require
from loope.lab.data.batches import Fingerprinted, Source
from loope.lab.data.images.catalog import how_to_get, load_images
from loope.lab.data.images.collection import Images
from loope.lab.data.images.layouts import read_folders
from loope.lab.data.images.source import ImageSource
from loope.lab.data.three_cell import ThreeCellSource
from loope.lab.engine.tasks import Bits, Classification
from loope.lab.experiments.datasets import RunData
from loope.lab.experiments.segmentation import segmentation
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run
from loope.lab.experiments.synthetic import synthetic_images
from loope.lab.experiments.timm_models import preparation
from loope.three_cell import ThreeCell
from loope.three_cell.metric import ThreeCellScore


class Scaled:
    """Scale the images of a source from 0..1 to -1..1."""

    def __init__(self, source: Source):
        self.source = source
        self.samples = source.samples
        self.steps = source.steps

    def fingerprint(self) -> Mapping[str, str]:
        """Return the fingerprint of the source."""
        return self.source.fingerprint() if isinstance(self.source, Fingerprinted) else {}

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the scaled batches of the source."""
        for images, targets in self.source.batches(epoch, start, share):
            yield images * 2 - 1, targets


def three_cell(run: Run, settings: Settings) -> RunData:
    """Load Three-Cell: six bits per image. Samples and splits are the same for every run."""
    recipe = run.recipe
    assert recipe is not None  # noqa: S101  (for the type checker: measurements have no data)

    def part(split: str) -> Source:
        data = ThreeCell(**run.data.options, seed=0, split=split)
        return Scaled(
            ThreeCellSource(data, recipe.batch_size, train=split == "train", seed=run.seed, device=settings.device())
        )

    return RunData(part("train"), part("val"), part("test"), Bits(ThreeCellScore), outputs=6)


def images(run: Run, settings: Settings) -> RunData:
    """Load photographs with one class each."""
    # The split is the same for every seed.
    parts = find_images(run, settings).split(run.data.options.get("split", "80-10-10"), seed=0)
    share = run.data.options.get("per_class")
    if share is not None:
        # A quarter for validation, which is evaluated every epoch.
        most = {name: max(1, share // 4) if name == "valid" else share for name in parts}
        parts = {name: _first_of_each_class(part, most[name]) for name, part in parts.items()}
    return _photographs(run, settings, parts)


def find_images(run: Run, settings: Settings) -> Images:
    """Find the photographs of a run, without decoding them.

    Raises:
        LoopeError: if they are missing.
    """
    classes = run.data.options.get("classes")
    if classes is None:
        return load_images(run.data.name, settings.data, download=settings.download)
    root = Path(settings.data or os.environ.get("LOOPE_DATA") or "DATA")
    require((root / "imagenet").is_dir(), f"ImageNet-1k is not in {root}. {how_to_get('imagenet', root)}")
    return read_folders(root / "imagenet", "train", "val", classes)


def synthetic(run: Run, settings: Settings) -> RunData:
    """Create noise images, for smoke tests."""
    return _photographs(
        run, settings, synthetic_images(**_without(run.data.options, "image_size")).split("80-10-10", seed=0)
    )


def masks(run: Run, settings: Settings) -> RunData:
    """Load scenes with a class for each pixel."""
    return segmentation(run, settings)


def _photographs(run: Run, settings: Settings, parts: dict[str, Images]) -> RunData:
    recipe = run.recipe
    assert recipe is not None  # noqa: S101  (for the type checker: measurements have no data)
    loading: dict[str, Any] = {
        "batch_size": recipe.batch_size,
        "preparation": preparation(run.model.name, image_size(run)),
        "seed": run.seed,
        "workers": settings.workers,
        "skip_bad_images": run.data.options.get("skip_bad_images", False),
    }
    train = ImageSource(
        parts["train"], train=True, augment=recipe.augment, mixup=recipe.mixup, cutmix=recipe.cutmix, **loading
    )
    classes = len(parts["train"].classes)
    task = Classification(classes, recipe.label_smoothing)
    return RunData(
        train,
        ImageSource(parts["valid"], **loading),
        ImageSource(parts["test"], **loading),
        task,
        outputs=classes,
        digests={name: part.digest() for name, part in parts.items()},
    )


def image_size(run: Run) -> int | None:
    """Return the image size of a run, or None for that of the pretrained model."""
    size: int | None = run.data.options.get("image_size", run.model.options.get("img_size"))
    return size


def _first_of_each_class(part: Images, most: int) -> Images:
    """Keep the first `most` images per class."""
    seen: dict[int, int] = {}
    chosen = []
    for place, label in enumerate(part.labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] <= most:
            chosen.append(place)
    return part.take(chosen)


def _without(options: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


LOADERS: dict[str, Callable[[Run, Settings], RunData]] = {
    "three_cell": three_cell,
    "pets": images,
    "cifar100": images,
    "imagenet": images,
    "imagenet100": images,
    "fake": synthetic,
    "camvid": masks,
    "cityscapes": masks,
    "fake_segmentation": masks,
}


def load_data(run: Run, settings: Settings) -> RunData:
    """Load the data of a run, by its name.

    Raises:
        LoopeError: for an unknown name, or unavailable data.
    """
    one_of("data set", run.data.name, LOADERS)
    require(run.recipe is not None, f"Nothing is trained in {run.name}, so it needs no data.")
    return LOADERS[run.data.name](run, settings)
