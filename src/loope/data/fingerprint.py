"""What data are, in a few letters: so that a run that goes on notices other data.

Names, sizes and contents, which are the same on every machine and after every copy. Contents are read where that takes
seconds; else the times of change stand in for them, and these a copy may change.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AFFORDABLE = 1 << 30  # bytes of files that are read at the start of a run: seconds, and its first epoch needs them too
THREADS = 16  # files wait for the disk or the network, not for each other
CHUNK = 1 << 20


def of_files(folder: Path, names: Sequence[str], more: Iterable[object] = ()) -> dict[str, str]:
    """The fingerprint of files.

    Args:
        folder: what the names are relative to; it may be another one on another machine.
        names: of the files; their order counts.
        more: what else belongs to the data, such as labels.

    Returns:
        "content", or for more than `AFFORDABLE` bytes "names and sizes", and "times".
    """
    paths = [folder / name for name in names]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(_look, paths))
        sizes = [size for size, _ in found]
        described = [*zip(names, sizes, strict=True), *more]
        if sum(sizes) > AFFORDABLE:
            return {"names and sizes": of(described), "times": of([time for _, time in found])}
        return {"content": of([*described, *pool.map(_content, paths)])}


def of(parts: Iterable[object]) -> str:
    """Twelve letters for anything that prints the same when it is the same."""
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{part!r}\n".encode(errors="surrogateescape"))
    return found.hexdigest()[:12]


def _look(path: Path) -> tuple[int, int]:
    """Size and time; (0, 0) for what is no file, which a run may be told to skip."""
    try:
        about = os.stat(path)
    except OSError:
        return 0, 0
    return (about.st_size, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else (0, 0)


def _content(path: Path) -> str:
    """The SHA-256 of a file, or nothing if it cannot be read."""
    found = hashlib.sha256()
    try:
        if not path.is_file():  # a pipe would keep us waiting
            return ""
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
    except OSError:
        return ""
    return found.hexdigest()
