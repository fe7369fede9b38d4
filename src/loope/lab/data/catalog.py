"""Data sets by name: description, size, folder layout and download."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torchvision.datasets import CIFAR100, OxfordIIITPet
from torchvision.datasets.utils import check_integrity, download_and_extract_archive

from loope.core.errors import LoopeError, one_of, require
from loope.lab.data.classification import Files, Images, Memory
from loope.lab.data.folders import data_folder, read_class_list, read_folders

PETS = "oxford-iiit-pet"  # the folder's name, as torchvision has it


class DatasetInfo(NamedTuple):
    """Description of a data set, and how to find and download it."""

    title: str
    size: str  # download size
    origin: str
    layout: str  # expected files below the data folder {root}
    find: Callable[[Path], Images | None]  # returns None if it is missing
    download: Callable[[Path], object] | None = None


def load_images(
    name: str,
    root: str | Path | None = None,
    *,
    download: bool = False,
    classes: str | Path | None = None,
    more: bool = False,
) -> Images:
    """Load the labelled images of a data set, without decoding them.

    Args:
        name: "pets", "cifar100", "imagenet" or "imagenet100".
        root: folder of the data sets; `LOOPE_DATA` by default.
        download: download it if it is missing ("pets" and "cifar100" only).
        classes: for "imagenet100" as a subset of ImageNet-1k: a text file with 100 ids, one per line.
        more: for "pets": add the test images of `root/oxford-iiit-pet-more/oxford-iiit-pet`, if that folder is there.

    Raises:
        LoopeError: if the data set is unknown, missing or incomplete.
    """
    one_of("data set", name, CATALOG)
    folder = data_folder(root, how_to_get(name))
    wanted = name
    if classes is not None:
        require(name == "imagenet100", f"A class list goes with 'imagenet100', got one for {name!r}; leave it out.")
        wanted = "imagenet"
        images = read_class_folders(folder / "imagenet", "val", read_class_list(classes))
    else:
        images = CATALOG[name].find(folder)
        if images is None and download:
            _download(name, folder)
            images = CATALOG[name].find(folder)
        if images is not None and more and name == "pets":
            images = with_more_pets(images, folder)
    if images is None:
        raise LoopeError(f"{CATALOG[wanted].title} is not in {folder}. {how_to_get(wanted, folder)}")
    count = len(images.classes)
    require(
        name != "imagenet100" or count == 100,
        f"ImageNet-100 has 100 classes, got {count}; give a folder or a class list with 100.",
    )
    return images


def how_to_get(name: str, root: Path = Path("DATA")) -> str:
    """Explain what to download, its size, and where to put it.

    Examples:
        >>> how_to_get("pets")[:71]
        'Download 0.8 GB (images.tar.gz and annotations.tar.gz) from https://www'
    """
    entry = CATALOG[name]
    shown = f"Download {entry.size} from {entry.origin}, so that there is {entry.layout.format(root=root)}"
    return shown + ("; download=True (--download) does it." if entry.download else ".")


def _download(name: str, root: Path) -> None:
    entry = CATALOG[name]
    if entry.download is None:
        raise LoopeError(f"{entry.title} cannot be downloaded by a program. {how_to_get(name, root)}")
    try:
        entry.download(root)
    except (OSError, RuntimeError) as error:
        raise LoopeError(f"The download of {entry.title} failed: {error}. {how_to_get(name, root)}") from error


def read_pets(root: Path) -> Images | None:
    """Read `root/oxford-iiit-pet` with torchvision, if it is there; `trainval` is the training split.

    Raises:
        LoopeError: if the lists are missing or damaged.
    """
    folder = root / PETS
    if not (folder / "annotations").is_dir() or not (folder / "images").is_dir():
        return None
    parts = {"train": _pets(root, "trainval"), "test": _pets(root, "test")}
    names = [f"images/{path.name}" for part in parts.values() for path in part._images]
    labels = [label for part in parts.values() for label in part._labels]
    official = [name for name, part in parts.items() for _ in part._images]
    classes = parts["train"].classes
    require(
        set(labels) == set(range(len(classes))),
        f"The lists in {folder / 'annotations'} must number the {len(classes)} classes of trainval.txt from 1 up, got "
        f"{sorted({label + 1 for label in labels})}.",
    )
    return Images(Files(folder, names), labels, official, classes)


def with_more_pets(images: Images, root: Path) -> Images:
    """Add the test images of a second folder in the same layout, `root/oxford-iiit-pet-more`, if it is there.

    Raises:
        LoopeError: if its list is missing or damaged, or an image is in both folders.
    """
    second = root / f"{PETS}-more"
    if not second.is_dir():
        return images
    test = _pets(second, "test")
    known = {Path(name).name for name in images.reader.names}
    twice = sorted(known & {path.name for path in test._images})
    require(not twice, f"{second} must hold other images than {root / PETS}, but both have {twice[:3]}.")
    require(
        set(test._labels) <= set(range(len(images.classes))),
        f"The list in {second} must have the {len(images.classes)} classes of {root / PETS}.",
    )
    names = [*(f"{PETS}/{name}" for name in images.reader.names)]
    names += [f"{second.name}/{PETS}/images/{path.name}" for path in test._images]
    labels, official = [*images.labels, *test._labels], [*images.official, *["test"] * len(test)]
    return Images(Files(root, names), labels, official, images.classes)


def _pets(root: Path, split: str) -> OxfordIIITPet:
    """Read a list of `root/oxford-iiit-pet`."""
    lists = root / PETS / "annotations"
    for path in lists.glob("*.txt"):
        require(path.is_file(), f"{path} must be a text file.")  # reading a pipe would block
    try:
        return OxfordIIITPet(root, split)
    except (OSError, ValueError, RuntimeError) as error:
        raise LoopeError(
            f"The lists in {lists} are not whole: {error}; delete {lists.parent} and download it again "
            "(download=True, --download)."
        ) from error


def read_cifar100(root: Path) -> Images | None:
    """Read `root/cifar-100-python` into memory with torchvision (184 MB), or else the folders of `root/cifar100`.

    The files are pickles, and a pickle can run any code: they are read only if their checksums are the published ones.

    Raises:
        LoopeError: if a file is not the published one.
    """
    folder = root / CIFAR100.base_folder
    if not folder.is_dir():
        return read_class_folders(root / "cifar100", "test")
    again = f"delete {folder} and download it again (download=True, --download)."
    files = [*CIFAR100.train_list, *CIFAR100.test_list, [CIFAR100.meta["filename"], CIFAR100.meta["md5"]]]
    try:
        wrong = [str(folder / name) for name, checksum in files if not check_integrity(folder / name, checksum)]
        require(
            not wrong,
            f"{', '.join(wrong)} must be as published, by MD5, but is not, and is not read, as a pickle can run code; "
            f"{again}",
        )
        parts = {"train": CIFAR100(root, train=True), "test": CIFAR100(root, train=False)}
    except (OSError, RuntimeError) as error:
        raise LoopeError(f"Cannot read {folder}: {error}; {again}") from error
    pixels = torch.cat([torch.from_numpy(part.data) for part in parts.values()]).contiguous()
    names = [f"{name}/{number}" for name, part in parts.items() for number in range(len(part))]
    labels = [label for part in parts.values() for label in part.targets]
    official = [name for name, part in parts.items() for _ in part.targets]
    return Images(Memory(names, pixels), labels, official, parts["train"].classes)


def download_cifar100(root: Path) -> None:
    """Download and unpack the archive, if its checksum is the published one."""
    download_and_extract_archive(CIFAR100.url, root, filename=CIFAR100.filename, md5=CIFAR100.tgz_md5)


def read_class_folders(folder: Path, test: str, classes: Sequence[str] | None = None) -> Images | None:
    """Read `folder/train/CLASS` and `folder/TEST/CLASS`, of all or some classes, if they are there."""
    return read_folders(folder, "train", test, classes) if (folder / "train").is_dir() else None


CATALOG = {
    "pets": DatasetInfo(
        "Oxford-IIIT Pet (37 classes, 7,349 labelled images)",
        "0.8 GB (images.tar.gz and annotations.tar.gz)",
        "https://www.robots.ox.ac.uk/~vgg/data/pets",
        "{root}/oxford-iiit-pet with the folders images and annotations",
        read_pets,
        lambda root: OxfordIIITPet(root, download=True),
    ),
    "cifar100": DatasetInfo(
        "CIFAR-100 (100 classes, 60,000 images of 32x32)",
        "169 MB (cifar-100-python.tar.gz)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "{root}/cifar-100-python with the files train, test and meta "
        "(or {root}/cifar100 with train/CLASS/*.png and test/CLASS/*.png)",
        read_cifar100,
        download_cifar100,
    ),
    "imagenet": DatasetInfo(
        "ImageNet-1k (ILSVRC 2012: 1,000 classes, 1,331,167 labelled images)",
        "155 GB (ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz)",
        "https://image-net.org/download (after a registration)",
        "{root}/imagenet with train/n01440764/*.JPEG and val/n01440764/*.JPEG, and so on. If the three archives are in "
        "{root}/imagenet, torchvision.datasets.ImageNet('{root}/imagenet', split='train') and split='val' unpack them",
        lambda root: read_class_folders(root / "imagenet", "val"),
    ),
    "imagenet100": DatasetInfo(
        "ImageNet-100 (100 classes of ImageNet-1k, about 130,000 images)",
        "100 classes (about 15 GB) of ImageNet-1k (155 GB)",
        "https://image-net.org/download (after a registration)",
        "{root}/imagenet100 with train/n01558993/*.JPEG and val/n01558993/*.JPEG, and so on; or put ImageNet-1k into "
        "{root}/imagenet and give the list of the 100, classes=FILE (--classes FILE), a text file with an id on each "
        "line. The paper does not say which 100; the list most used is imagenet100.txt of "
        "https://github.com/HobbitLong/CMC",
        lambda root: read_class_folders(root / "imagenet100", "val"),
    ),
}
