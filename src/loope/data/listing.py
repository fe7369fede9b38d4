"""Which files of a data set are there: real files, each once, whatever links lead to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Found(NamedTuple):
    """A regular file.

    Attributes:
        path: where it was found.
        identity: its device and inode: the same for all names of one file.
        linked: whether a symbolic link leads to it.
    """

    path: str
    identity: tuple[int, int]
    linked: bool


def walk(folder: Path, endings: Sequence[str]) -> list[Found]:
    """Regular files below `folder` whose names have one of the endings, in the order of torchvision's `make_dataset`.

    `folder` may be a link. Links to folders below it are not followed: they can lead in circles, or to another part of
    the data. Links to files are. Pipes and devices are left out: they would block whoever reads them.
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
                    # A plain entry knows its inode: a million files are listed without asking for each.
                    about = entry.stat() if linked else None
                    identity = (about.st_dev, about.st_ino) if about else (device, entry.inode())
                    found.append(Found(entry.path, identity, linked or through_link))
    return sorted(found, key=lambda each: os.path.split(each.path))


def each_once(found: Iterable[Found]) -> list[str]:
    """The path of each file, in order: the file itself rather than a link to it, else the first of its names."""
    every = list(found)
    kept: dict[tuple[int, int], str] = {}
    for each in sorted(every, key=lambda each: each.linked):  # stable: the first stays first
        kept.setdefault(each.identity, each.path)
    chosen = set(kept.values())
    return [each.path for each in every if each.path in chosen]
