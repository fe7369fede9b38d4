"""Segmentation runs: SETR and Segmenter on Cityscapes, CamVid or synthetic scenes."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Dataset, Subset

from loope.core.errors import one_of
from loope.core.seeds import derive
from loope.lab.data.batches import Source
from loope.lab.data.segmentation import Augment, CamVid, Cityscapes, SegmentationSource
from loope.lab.engine.tasks import Scores, Task
from loope.lab.experiments.experiment import Training
from loope.lab.experiments.spec import Model, Run
from loope.lab.experiments.timm_models import create_timm, preparation
from loope.segmentation import segmentation_loss
from loope.segmentation.adapter import MODELS
from loope.segmentation.labels import Labels, as_labels
from loope.segmentation.metric import SegmentationScore

AUGMENTS = {"none": None, "scale-crop-flip": Augment()}
EXAMPLES = 4  # test images kept for figures
Pairs = Dataset[tuple[Tensor, Tensor]]  # images and masks


class PixelClasses:
    """The task of semantic segmentation; void pixels are ignored."""

    headline = "miou"

    def __init__(self, labels: Labels, label_smoothing: float = 0.0):
        self.labels = labels
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the pixel-wise cross entropy, computed in float32."""
        scores = model(inputs)
        wide = tuple(each.float() for each in scores) if isinstance(scores, tuple) else scores.float()
        return segmentation_loss(wide, targets, label_smoothing=self.label_smoothing)

    def metrics(self) -> Scores:
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


class Segmentation(Training):
    """Train SETR or Segmenter."""

    def find_data(self) -> None:
        """Find the images and masks, without decoding them."""
        _ = self.parts

    @cached_property
    def parts(self) -> dict[str, Pairs]:
        """The images and masks of each part."""
        root = self.settings.data
        if self.run.data.name == "camvid":
            return {"train": CamVid("train", root), "val": CamVid("val", root), "test": CamVid("test", root)}
        if self.run.data.name == "fake_segmentation":
            data = Scenes(**self.run.data.options)
            edges = (0, data.size * 6 // 10, data.size * 8 // 10, data.size)
            parts = (Subset(data, range(*edges[place : place + 2])) for place in range(3))
            return dict(zip(("train", "val", "test"), parts, strict=True))
        # The paper's 80-20 split of the annotated images of Cityscapes; the 20 % serve for validation and test.
        whole: ConcatDataset[tuple[Tensor, Tensor]] = ConcatDataset(
            [Cityscapes("train", root), Cityscapes("val", root)]
        )
        order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(derive("cityscapes", 0))).tolist()
        edge = round(0.8 * len(whole))
        held_out = Subset(whole, sorted(order[edge:]))
        return {"train": Subset(whole, sorted(order[:edge])), "val": held_out, "test": held_out}

    @cached_property
    def task(self) -> Task:  # type: ignore[override]
        """Pixel-wise cross entropy and scores."""
        return PixelClasses(labels_of(self.run), self.recipe.label_smoothing)

    def source(self, part: str) -> Source:
        """Return the batches of a part, normalized as the backbone expects."""
        one_of("augmentation of segmentation", self.recipe.augment, AUGMENTS)
        expected = preparation(self.run.model.options["backbone"])
        return SegmentationSource(
            self.parts[part],
            batch_size=self.recipe.batch_size,
            size=self.run.data.options["image_size"],
            mean=expected.mean,
            std=expected.std,
            seed=self.run.seed,
            workers=1 if self.settings.workers is None else self.settings.workers,
            train=part == "train",
            augment=AUGMENTS[self.recipe.augment] if part == "train" else None,
        )

    def create_model(self) -> nn.Module:
        """Create SETR or Segmenter around its backbone."""
        spec, options = self.run.model, dict(self.run.model.options)
        backbone_options = dict(options.pop("backbone_options", {}))
        patch = backbone_options.get("patch_size", 16)
        # Images are padded to whole patches.
        size = tuple(-(-length // patch) * patch for length in self.run.data.options["image_size"])
        backbone = create_timm(
            Model(name=options.pop("backbone"), options={**backbone_options, "img_size": size}, weights=spec.weights)
        )
        return MODELS[spec.name](backbone, labels_of(self.run), **options)

    @torch.no_grad()
    def examples(self, model: nn.Module) -> dict[str, Tensor]:
        """Return test images, `(n, H, W, 3)` uint8, with ground truth and prediction, `(n, H, W)` uint8."""
        images, truths = (each[:EXAMPLES] for each in next(iter(self.sources["test"].batches(0))))
        given = model.eval()(images.to(next(model.parameters()).device)).argmax(1).cpu()
        least, most = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
        seen = ((images - least) / (most - least) * 255).permute(0, 2, 3, 1)
        return {"examples": seen.byte().contiguous(), "truths": truths.byte(), "masks": given.byte()}


def labels_of(run: Run) -> Labels:
    """Return the classes of a run's data, without reading it."""
    published = {"camvid": CamVid.labels, "cityscapes": Cityscapes.labels}
    return published.get(run.data.name) or as_labels(run.data.options["classes"])
