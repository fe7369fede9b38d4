"""List the regular files of a data set, each once, even if links lead to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


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
