"""Segmentation runs: SETR and Segmenter on Cityscapes, CamVid or synthetic scenes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from loope.core.errors import one_of
from loope.core.seeds import derive
from loope.lab.data.segmentation import Augment, CamVid, Cityscapes, SegmentationSource
from loope.lab.experiments.datasets import RunData
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Model, Run
from loope.lab.experiments.timm_models import create_timm, preparation
from loope.segmentation import SETR, Segmenter, segmentation_loss
from loope.segmentation.labels import Labels, as_labels
from loope.segmentation.metric import SegmentationScore

MODELS: dict[str, type[SETR] | type[Segmenter]] = {"SETR": SETR, "Segmenter": Segmenter}
AUGMENTS = {"none": None, "scale-crop-flip": Augment()}
EXAMPLES = 4  # test images kept for figures


class Segmentation:
    """Semantic segmentation task; void pixels are ignored."""

    headline = "miou"

    def __init__(self, labels: Labels, label_smoothing: float = 0.0):
        self.labels = labels
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the pixel-wise cross entropy, computed in float32."""
        scores = model(inputs)
        wide = tuple(each.float() for each in scores) if isinstance(scores, tuple) else scores.float()
        return segmentation_loss(wide, targets, label_smoothing=self.label_smoothing)

    def metrics(self) -> Any:
        """Create pixel accuracy, mIoU, mDice, MCC and boundary F1."""
        return SegmentationScore(len(self.labels))


class Scenes(Dataset[tuple[Tensor, Tensor]]):
    """Synthetic scenes for smoke tests: noise images with one stripe per class as mask."""

    def __init__(self, size: int, classes: int, image_size: list[int]):
        self.size, self.labels, self.shape = size, as_labels(classes), image_size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        height, width = self.shape
        noise = torch.Generator().manual_seed(index)
        image = torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=noise)
        mask = torch.arange(height)[:, None].expand(-1, width) * len(self.labels) // height
        return image, mask.byte()


def segmentation(run: Run, settings: Settings) -> RunData:
    """Load the splits and the task of a run."""
    recipe = run.recipe
    assert recipe is not None  # noqa: S101  (for the type checker: measurements have no data)
    one_of("augmentation of segmentation", recipe.augment, AUGMENTS)
    parts, labels = PARTS[run.data.name](run, settings)
    mean, std = _range(run)
    common: dict[str, Any] = {
        "batch_size": recipe.batch_size,
        "size": run.data.options["image_size"],
        "mean": mean,
        "std": std,
        "seed": run.seed,
        "workers": 1 if settings.workers is None else settings.workers,
    }
    return RunData(
        train=SegmentationSource(parts["train"], train=True, augment=AUGMENTS[recipe.augment], **common),
        valid=SegmentationSource(parts["valid"], **common),
        test=SegmentationSource(parts["test"], **common),
        task=Segmentation(labels, recipe.label_smoothing),
        outputs=len(labels),
        labels=labels,
    )


Parts = dict[str, Dataset[tuple[Tensor, Tensor]]]


def _camvid(run: Run, settings: Settings) -> tuple[Parts, Labels]:
    train, valid, test = (CamVid(split, settings.data) for split in ("train", "val", "test"))
    return {"train": train, "valid": valid, "test": test}, train.labels


def _cityscapes(run: Run, settings: Settings) -> tuple[Parts, Labels]:
    """Use the paper's 80-20 split of the annotated images; the 20 % serve for validation and test."""
    train, val = Cityscapes("train", settings.data), Cityscapes("val", settings.data)
    whole: Dataset[tuple[Tensor, Tensor]] = torch.utils.data.ConcatDataset([train, val])
    count = len(train) + len(val)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(derive("cityscapes", 0))).tolist()
    held_out = Subset(whole, sorted(order[round(0.8 * count) :]))
    return {
        "train": Subset(whole, sorted(order[: round(0.8 * count)])),
        "valid": held_out,
        "test": held_out,
    }, train.labels


def _scenes(run: Run, settings: Settings) -> tuple[Parts, Labels]:
    data = Scenes(**run.data.options)
    edges = (0, data.size * 6 // 10, data.size * 8 // 10, data.size)
    ranges = (range(edges[place], edges[place + 1]) for place in range(3))
    return dict(zip(("train", "valid", "test"), (Subset(data, each) for each in ranges), strict=True)), data.labels


PARTS: dict[str, Callable[[Run, Settings], tuple[Parts, Labels]]] = {
    "camvid": _camvid,
    "cityscapes": _cityscapes,
    "fake_segmentation": _scenes,
}


def build_segmentation(spec: Model, labels: Labels, size: tuple[int, int]) -> nn.Module:
    """Build SETR or Segmenter around its backbone."""
    options = dict(spec.options)
    backbone_options = dict(options.pop("backbone_options", {}))
    patch = backbone_options.get("patch_size", 16)
    whole = tuple(-(-length // patch) * patch for length in size)  # images are padded to whole patches
    backbone = create_timm(
        Model(name=options.pop("backbone"), options={**backbone_options, "img_size": whole}, weights=spec.weights)
    )
    return MODELS[spec.name](backbone, labels, **options)


def labels_of(run: Run) -> Labels:
    """Return the classes of a run's data."""
    known = {"camvid": CamVid.labels}
    return known[run.data.name] if run.data.name in known else as_labels(run.data.options.get("classes", 19))


@torch.no_grad()
def keep_examples(model: nn.Module, data: RunData) -> dict[str, Tensor]:
    """Return test images, `(n, H, W, 3)` uint8, with ground truth and prediction, `(n, H, W)` uint8, for figures."""
    images, truths = next(iter(data.test.batches(0)))
    images, truths = images[:EXAMPLES], truths[:EXAMPLES]
    given = model.eval()(images.to(next(model.parameters()).device)).argmax(1).cpu()
    least, most = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    seen = ((images - least) / (most - least) * 255).permute(0, 2, 3, 1)
    return {"examples": seen.byte().contiguous(), "truths": truths.byte(), "masks": given.byte()}


def _range(run: Run) -> tuple[tuple[float, ...], tuple[float, ...]]:
    expected = preparation(run.model.options["backbone"])
    return expected.mean, expected.std
