"""From the data of a run to the batches of its three parts, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from loope.core.batches import Fingerprinted
from loope.core.errors import one_of, require
from loope.experiments.material import Material
from loope.experiments.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from loope.core.batches import Source
    from loope.data.images.augment import Preparation
    from loope.data.images.collection import Images
    from loope.experiments.spec import Run


class Scaled:
    """A source whose images, in 0..1, are brought to the range -1..1, as for the models here."""

    def __init__(self, source: Source):
        self.source = source
        self.samples = source.samples
        self.steps = source.steps

    def fingerprint(self) -> Mapping[str, str]:
        """The source's."""
        return self.source.fingerprint() if isinstance(self.source, Fingerprinted) else {}

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tensor, Tensor]]:
        """The source's batches, scaled."""
        for images, targets in self.source.batches(epoch, start, share):
            yield images * 2 - 1, targets


def three_cell(run: Run, settings: Settings) -> Material:
    """The position probe: six bits an image. Samples and parts have a seed of their own, the same for every run."""
    from loope.data.three_cell import ThreeCell
    from loope.data.three_cell.source import ThreeCellSource
    from loope.engine.tasks import Bits
    from loope.metrics.three_cell import ThreeCellScore

    recipe = run.recipe
    assert recipe is not None  # noqa: S101  (for the type checker: measurements have no material)

    def part(split: str) -> Source:
        data = ThreeCell(**run.data.options, seed=0, split=split)
        return Scaled(
            ThreeCellSource(data, recipe.batch_size, train=split == "train", seed=run.seed, device=settings.device())
        )

    return Material(part("train"), part("val"), part("test"), Bits(ThreeCellScore), outputs=6)


def images(run: Run, settings: Settings) -> Material:
    """Photographs with a class each."""
    from loope.data.images.catalog import load_images

    found = load_images(run.data.name, settings.data, download=settings.download, classes=settings.classes)
    # The split is the same for every run: seeds differ in weights and training, not in what is tested.
    parts = found.split(run.data.options.get("split", "80-10-10"), seed=0)
    share = run.data.options.get("per_class")
    if share is not None:
        # A quarter for validation, which is scored every epoch.
        most = {name: max(1, share // 4) if name == "valid" else share for name in parts}
        parts = {name: _first_of_each_class(part, most[name]) for name, part in parts.items()}
    return _photographs(run, settings, parts)


def fake(run: Run, settings: Settings) -> Material:
    """Noise in place of photographs, for smoke tests."""
    from loope.experiments.fake import fake_images

    return _photographs(
        run, settings, fake_images(**_without(run.data.options, "image_size")).split("80-10-10", seed=0)
    )


def masks(run: Run, settings: Settings) -> Material:
    """Scenes with a class for each pixel."""
    from loope.experiments.segmentation import segmentation

    return segmentation(run, settings)


def _photographs(run: Run, settings: Settings, parts: dict[str, Images]) -> Material:
    from loope.data.images.source import ImageSource
    from loope.engine.tasks import Classification

    recipe = run.recipe
    assert recipe is not None  # noqa: S101  (for the type checker: measurements have no material)
    loading: dict[str, Any] = {
        "batch_size": recipe.batch_size,
        "preparation": preparation(run.model.name, image_size(run)),
        "seed": run.seed,
        "workers": settings.workers,
        "skip_bad_images": settings.skip_bad_images,
    }
    train = ImageSource(
        parts["train"], train=True, augment=recipe.augment, mixup=recipe.mixup, cutmix=recipe.cutmix, **loading
    )
    classes = len(parts["train"].classes)
    task = Classification(classes, recipe.label_smoothing)
    return Material(
        train,
        ImageSource(parts["valid"], **loading),
        ImageSource(parts["test"], **loading),
        task,
        outputs=classes,
        digests={name: part.digest() for name, part in parts.items()},
    )


def preparation(model: str, size: int | None = None) -> Preparation:
    """What a model of timm expects of its images, in its own size or another."""
    import timm

    from loope.data.images.augment import Preparation

    known = timm.get_pretrained_cfg(model)
    require(known is not None, f"timm knows no configuration of {model!r}.")
    config: dict[str, Any] = dict(known.to_dict())  # type: ignore[union-attr]
    if size is not None:
        config["input_size"] = (3, size, size)
    return Preparation.from_timm(config)


def image_size(run: Run) -> int | None:
    """The side of the run's images, where the run itself says it; else it is that of the pretrained model."""
    size: int | None = run.data.options.get("image_size", run.model.options.get("img_size"))
    return size


def _first_of_each_class(part: Images, most: int) -> Images:
    """At most so many images of each class, the first ones."""
    seen: dict[int, int] = {}
    chosen = []
    for place, label in enumerate(part.labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] <= most:
            chosen.append(place)
    return part.take(chosen)


def _without(options: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


MATERIALS: dict[str, Callable[[Run, Settings], Material]] = {
    "three_cell": three_cell,
    "pets": images,
    "cifar100": images,
    "imagenet": images,
    "imagenet100": images,
    "fake": fake,
    "camvid": masks,
    "cityscapes": masks,
    "fake_segmentation": masks,
}


def material(run: Run, settings: Settings) -> Material:
    """The material of a run, by the name of its data.

    Raises:
        LoopeError: for an unknown name, or data that cannot be had.
    """
    one_of("data set", run.data.name, MATERIALS)
    require(run.recipe is not None, f"Nothing is trained in {run.name}, so it needs no data.")
    return MATERIALS[run.data.name](run, settings)
