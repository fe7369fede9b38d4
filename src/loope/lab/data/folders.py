"""Data sets as folders: list their files, each once, and read a folder per class."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes

from loope.core.errors import LoopeError, require, shown, unknown
from loope.lab.data.classification import Files, Images


class Found(NamedTuple):
    """A regular file.

    Attributes:
        path: path under which it was found.
        identity: device and inode, the same for all names of a file.
        linked: whether it was reached through a symbolic link.
    """

    path: str
    identity: tuple[int, int]
    linked: bool


def walk(folder: Path, endings: Sequence[str]) -> list[Found]:
    """List regular files below `folder` with one of the endings, in the order of torchvision's `make_dataset`.

    `folder` may be a link. Links to folders below it are not followed, as they can form cycles or lead to another
    split; links to files are. Pipes and devices are skipped, as reading them would block.
    """
    through_link = folder.is_symlink()
    found: list[Found] = []
    pending = [str(folder)]
    while pending:
        root = pending.pop()
        device = os.stat(root).st_dev
        with os.scandir(root) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.name.lower().endswith(tuple(endings)) and entry.is_file():
                    linked = entry.is_symlink()
                    # A plain entry knows its inode: no `stat` call per file.
                    about = entry.stat() if linked else None
                    identity = (about.st_dev, about.st_ino) if about else (device, entry.inode())
                    found.append(Found(entry.path, identity, linked or through_link))
    return sorted(found, key=lambda each: os.path.split(each.path))


def each_once(found: Iterable[Found]) -> list[str]:
    """Return one path per file, in order: the file itself rather than a link to it, else its first name."""
    every = list(found)
    kept: dict[tuple[int, int], str] = {}
    for each in sorted(every, key=lambda each: each.linked):  # stable sort
        kept.setdefault(each.identity, each.path)
    chosen = set(kept.values())
    return [each.path for each in every if each.path in chosen]


def data_folder(root: str | Path | None, how_to_get: str) -> Path:
    """Return the folder of the data sets: `root`, or else that in `LOOPE_DATA`.

    Raises:
        LoopeError: if neither is given; `how_to_get` explains how to get the data.
    """
    place = root or os.environ.get("LOOPE_DATA")
    if not place:
        raise LoopeError(f"No folder with data sets is known: give root= (--data) or set LOOPE_DATA. {how_to_get}")
    return Path(place)


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


def read_unlabelled(folder: Path) -> Files:
    """List the images of a folder at any depth, each file once.

    Raises:
        LoopeError: if there is no such folder, or no image in it.
    """
    require(folder.is_dir(), f"There is no folder {folder}; name one with images, *.jpg or *.png, at any depth.")
    names = [str(Path(path).relative_to(folder)) for path in each_once(walk(folder, IMG_EXTENSIONS))]
    require(len(names) > 0, f"{folder} must hold images, *.jpg or *.png, at any depth; it has none.")
    return Files(folder, names)


def read_labels(path: Path, files: Files) -> dict[str, int]:
    """Read class indices from a text file with lines "relative/path index", for some or all of the files.

    Raises:
        LoopeError: if the file cannot be read, a line is malformed, or names no file or one twice.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()  # some editors on Windows write a mark at the start
    except (OSError, ValueError) as error:
        raise LoopeError(
            f"Cannot read the labels {path}: {error}; give a text file with lines 'relative/path index'."
        ) from error
    names, labels = set(files.names), dict[str, int]()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        *rest, index = line.rsplit(maxsplit=1)
        name = rest[0] if rest else ""
        where = f"Line {number} of the labels {path}"
        require(
            bool(name) and index.isascii() and index.isdecimal() and len(index) < 10,
            f"{where} must be a path, a space or tab, and the index of a class, got {shown(line)}.",
        )
        require(name in names, f"{where} names {shown(name)}, which is no image in {files.folder}.")
        require(name not in labels, f"{where} names {shown(name)} again; give each image one class.")
        labels[name] = int(index)
    return labels


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
