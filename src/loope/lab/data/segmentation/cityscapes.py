"""Cityscapes: street scenes of 50 cities with the 19 evaluated classes (Cordts et al., 2016)."""

from __future__ import annotations

from pathlib import Path

from torchvision.datasets import Cityscapes as Loader

from loope.core.errors import LoopeError, one_of, require
from loope.lab.data.segmentation.pairs import Pairs, folder_of
from loope.segmentation.labels import VOID, Labels

SPLITS = ("train", "val", "test")
HOW = (
    "Register at https://www.cityscapes-dataset.com, download leftImg8bit_trainvaltest.zip (11 GB) and "
    "gtFine_trainvaltest.zip (241 MB), and put both into {root}/cityscapes, unpacked or not, so that there are "
    "{root}/cityscapes/leftImg8bit/train/aachen/*_leftImg8bit.png and "
    "{root}/cityscapes/gtFine/train/aachen/*_gtFine_labelIds.png, and so on."
)


class Cityscapes(Pairs):
    """2,975 training and 500 validation images of 1024x2048, finely annotated, with 19 classes and void.

    Files are listed by torchvision and sorted; label ids are mapped to the published train ids.

    Args:
        split: "train", "val" or "test"; the masks of "test" are entirely void.
        root: folder of the data sets; `LOOPE_DATA` by default.

    Raises:
        LoopeError: if it is missing; the message says how to get it.
    """

    def __init__(self, split: str = "train", root: str | Path | None = None):
        one_of("split", split, SPLITS)
        folder = folder_of("cityscapes", root, HOW)
        try:
            loader = Loader(str(folder), split=split, mode="fine", target_type="semantic")
        except RuntimeError:
            raise LoopeError(f"Cityscapes is not in {folder}. {HOW.format(root=folder.parent)}") from None
        # torchvision lists files in the order of the file system, which differs between machines.
        found = sorted((Path(image), Path(mask)) for image, (mask,) in zip(loader.images, loader.targets, strict=True))
        require(bool(found), f"There is no image in {loader.images_dir}. {HOW.format(root=folder.parent)}")
        table = [entry for entry in Loader.classes if entry.id >= 0]
        chosen = sorted((entry for entry in table if not entry.ignore_in_eval), key=lambda entry: entry.train_id)
        labels = Labels("Cityscapes", tuple(each.name for each in chosen), tuple(each.color for each in chosen))
        values = {entry.id: VOID if entry.ignore_in_eval else entry.train_id for entry in table}
        super().__init__(found, labels, values)
