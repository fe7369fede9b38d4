"""Read data sets from disk: a folder per class, or the lists of Oxford-IIIT Pet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchvision.datasets import OxfordIIITPet
from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes

from loope.core.errors import LoopeError, require, unknown
from loope.lab.data.images.collection import Images
from loope.lab.data.images.readers import Files
from loope.lab.data.listing import each_once, walk


def read_folders(folder: Path, train: str, test: str, classes: Sequence[str] | None = None) -> Images:
    """List images in `folder/train/CLASS` and `folder/test/CLASS`, as torchvision's `ImageFolder` does.

    Classes are numbered by sorted name, which for ImageNet matches pretrained models. Each file counts once, even if
    links lead to it, so that no test image is also a training image.

    Args:
        folder: folder of the data set.
        train: subfolder of the training split.
        test: subfolder of the test split.
        classes: classes to read; None for all.

    Raises:
        LoopeError: if a class is unknown, missing in a split, or has no images.
    """
    try:
        found = {part: find_classes(folder / part)[0] for part in (train, test)}
        apart = sorted(set(found[train]) ^ set(found[test]))
        require(
            not apart,
            f"{folder / train} and {folder / test} must have the same class folders, but only one has {apart[:3]}.",
        )
        for name in classes or ():
            if name not in found[train]:
                raise unknown("class", name, found[train])
        kept = sorted(set(classes or found[train]))
        places = [(part, name) for part in (train, test) for name in kept]
        files = {place: walk(folder.joinpath(*place), IMG_EXTENSIONS) for place in places}
    except FileNotFoundError as error:  # the message says what is missing
        raise LoopeError(
            f"{folder} must hold {train}/CLASS/*.jpg and {test}/CLASS/*.jpg (or .png): {error}."
        ) from error
    once = set(each_once(each for found_there in files.values() for each in found_there))
    listed = {place: [each.path for each in found_there if each.path in once] for place, found_there in files.items()}
    for place, paths in listed.items():
        if not paths:
            raise LoopeError(
                f"{folder.joinpath(*place)} must hold images, *.jpg or *.png, that are in no other folder too; it has "
                "none."
            )
    number = {name: label for label, name in enumerate(kept)}
    names = [str(Path(path).relative_to(folder)) for paths in listed.values() for path in paths]
    labels = [number[name] for (_, name), paths in listed.items() for _ in paths]
    official = ["train" if part == train else "test" for (part, _), paths in listed.items() for _ in paths]
    return Images(Files(folder, names), labels, official, kept)


def read_pets(folder: Path) -> Images:
    """Read Oxford-IIIT Pet with torchvision; `trainval` is the training split.

    Raises:
        LoopeError: if the lists are missing or damaged.
    """
    lists = folder / "annotations"
    for path in lists.glob("*.txt"):
        require(path.is_file(), f"{path} must be a text file.")  # reading a pipe would block
    try:
        parts = {"train": OxfordIIITPet(folder.parent, "trainval"), "test": OxfordIIITPet(folder.parent, "test")}
    except (OSError, ValueError) as error:
        raise LoopeError(
            f"The lists in {lists} are not whole: {error}; delete {folder} and download it again "
            "(download=True, --download)."
        ) from error
    names = [f"images/{path.name}" for part in parts.values() for path in part._images]
    labels = [label for part in parts.values() for label in part._labels]
    official = [name for name, part in parts.items() for _ in part._images]
    classes = parts["train"].classes
    require(
        set(labels) == set(range(len(classes))),
        f"The lists in {lists} must number the {len(classes)} classes of trainval.txt from 1 up, got "
        f"{sorted({label + 1 for label in labels})}.",
    )
    return Images(Files(folder, names), labels, official, classes)


def read_class_list(path: str | Path) -> list[str]:
    """Read class names from a text file, one per line.

    Raises:
        LoopeError: if the file cannot be read, is empty, or repeats a name.
    """
    require(not Path(path).exists() or Path(path).is_file(), f"The class list {path} must be a text file.")
    try:
        lines = Path(path).read_text().split()
    except (OSError, ValueError) as error:
        raise LoopeError(
            f"Cannot read the class list {path}: {error}; give a text file with a class on each line."
        ) from error
    twice = sorted({line for line in lines if lines.count(line) > 1})
    require(
        len(lines) > 0 and not twice,
        f"The class list {path} must name each class once, one on each line; "
        + (f"it names {twice[:3]} twice." if twice else "it is empty."),
    )
    return lines
