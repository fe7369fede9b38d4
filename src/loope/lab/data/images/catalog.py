"""Data sets by name: description, size, folder layout and download."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torchvision.datasets import CIFAR100, OxfordIIITPet
from torchvision.datasets.utils import download_and_extract_archive

from loope.core.errors import LoopeError, one_of, require
from loope.lab.data.images.cifar import read_cifar100
from loope.lab.data.images.collection import Images
from loope.lab.data.images.layouts import read_class_list, read_folders, read_pets


class DatasetInfo(NamedTuple):
    """Description of a data set, and how to find and download it."""

    title: str
    size: str  # download size
    origin: str
    layout: str  # expected files below the data folder {root}
    find: Callable[[Path], Images | None]  # returns None if it is missing
    download: Callable[[Path], None] | None = None


def load_images(
    name: str, root: str | Path | None = None, *, download: bool = False, classes: str | Path | None = None
) -> Images:
    """Load the labelled images of a data set, without decoding them.

    Args:
        name: "pets", "cifar100", "imagenet" or "imagenet100".
        root: folder of the data sets; `LOOPE_DATA` by default.
        download: download it if it is missing ("pets" and "cifar100" only).
        classes: for "imagenet100" as a subset of ImageNet-1k: a text file with 100 ids, one per line.

    Raises:
        LoopeError: if the data set is unknown, missing or incomplete.
    """
    one_of("data set", name, CATALOG)
    entry = CATALOG[name]
    place = root or os.environ.get("LOOPE_DATA")
    if not place:
        raise LoopeError(
            f"No folder with data sets is known: give root= (--data) or set LOOPE_DATA. {how_to_get(name)}"
        )
    folder = Path(place)
    if classes is not None:
        require(name == "imagenet100", f"A class list goes with 'imagenet100', got one for {name!r}; leave it out.")
        return _choose_imagenet100(folder, read_class_list(classes))
    images = entry.find(folder)
    if images is None and download:
        _download(name, folder)
        images = entry.find(folder)
    if images is None:
        raise LoopeError(f"{entry.title} is not in {folder}. {how_to_get(name, folder)}")
    return images


def how_to_get(name: str, root: Path = Path("DATA")) -> str:
    """Explain what to download, its size, and where to put it.

    Examples:
        >>> how_to_get("pets")[:71]
        'Download 0.8 GB (images.tar.gz and annotations.tar.gz) from https://www'
    """
    entry = CATALOG[name]
    told = f"Download {entry.size} from {entry.origin}, so that there is {entry.layout.format(root=root)}"
    return told + ("; download=True (--download) does it." if entry.download else ".")


def _download(name: str, root: Path) -> None:
    entry = CATALOG[name]
    if entry.download is None:
        raise LoopeError(f"{entry.title} cannot be downloaded by a program. {how_to_get(name, root)}")
    try:
        entry.download(root)
    except (OSError, RuntimeError) as error:
        raise LoopeError(f"The download of {entry.title} failed: {error}. {how_to_get(name, root)}") from error


def _find_pets(root: Path) -> Images | None:
    folder = root / "oxford-iiit-pet"
    return read_pets(folder) if all((folder / part).is_dir() for part in ("images", "annotations")) else None


def _download_pets(root: Path) -> None:
    OxfordIIITPet(root, download=True)


def _find_cifar100(root: Path) -> Images | None:
    folders = root / "cifar100"
    if (root / CIFAR100.base_folder).is_dir():
        return read_cifar100(root)
    return read_folders(folders, "train", "test") if folders.is_dir() else None


def _download_cifar100(root: Path) -> None:
    download_and_extract_archive(CIFAR100.url, root, filename=CIFAR100.filename, md5=CIFAR100.tgz_md5)


def _find_imagenet(root: Path) -> Images | None:
    folder = root / "imagenet"
    return read_folders(folder, "train", "val") if (folder / "train").is_dir() else None


def _find_imagenet100(root: Path) -> Images | None:
    folder = root / "imagenet100"
    return _of_100_classes(read_folders(folder, "train", "val")) if (folder / "train").is_dir() else None


def _choose_imagenet100(root: Path, classes: list[str]) -> Images:
    folder = root / "imagenet"
    require((folder / "train").is_dir(), f"ImageNet-1k is not in {root}. {how_to_get('imagenet', root)}")
    return _of_100_classes(read_folders(folder, "train", "val", classes))


def _of_100_classes(images: Images) -> Images:
    count = len(images.classes)
    require(count == 100, f"ImageNet-100 has 100 classes, got {count}; give a folder or a class list with 100.")
    return images


CATALOG = {
    "pets": DatasetInfo(
        "Oxford-IIIT Pet (37 classes, 7,349 labelled images)",
        "0.8 GB (images.tar.gz and annotations.tar.gz)",
        "https://www.robots.ox.ac.uk/~vgg/data/pets",
        "{root}/oxford-iiit-pet with the folders images and annotations",
        _find_pets,
        _download_pets,
    ),
    "cifar100": DatasetInfo(
        "CIFAR-100 (100 classes, 60,000 images of 32x32)",
        "169 MB (cifar-100-python.tar.gz)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "{root}/cifar-100-python with the files train, test and meta "
        "(or {root}/cifar100 with train/CLASS/*.png and test/CLASS/*.png)",
        _find_cifar100,
        _download_cifar100,
    ),
    "imagenet": DatasetInfo(
        "ImageNet-1k (ILSVRC 2012: 1,000 classes, 1,331,167 labelled images)",
        "155 GB (ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz)",
        "https://image-net.org/download (after a registration)",
        "{root}/imagenet with train/n01440764/*.JPEG and val/n01440764/*.JPEG, and so on. If the three archives are in "
        "{root}/imagenet, torchvision.datasets.ImageNet('{root}/imagenet', split='train') and split='val' unpack them",
        _find_imagenet,
    ),
    "imagenet100": DatasetInfo(
        "ImageNet-100 (100 classes of ImageNet-1k, about 130,000 images)",
        "100 classes (about 15 GB) of ImageNet-1k (155 GB)",
        "https://image-net.org/download (after a registration)",
        "{root}/imagenet100 with train/n01558993/*.JPEG and val/n01558993/*.JPEG, and so on; or put ImageNet-1k into "
        "{root}/imagenet and give the list of the 100, classes=FILE (--classes FILE), a text file with an id on each "
        "line. The paper does not say which 100; the list most used is imagenet100.txt of "
        "https://github.com/HobbitLong/CMC",
        _find_imagenet100,
    ),
}
