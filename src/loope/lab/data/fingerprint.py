"""Fingerprints of data, so that a resumed run notices other data.

Names, sizes and contents are hashed: they are the same on every machine and after copying. Files that would take longer
than seconds to read are compared by modification time instead, which copying may change.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AFFORDABLE = 1 << 30  # bytes to read at the start of a run: takes seconds, and the first epoch reads them anyway
THREADS = 16  # reading waits for the disk or the network
CHUNK = 1 << 20


def of_files(folder: Path, names: Sequence[str], more: Iterable[object] = ()) -> dict[str, str]:
    """Return the fingerprint of files.

    Args:
        folder: folder that the names are relative to; not part of the fingerprint.
        names: names of the files; their order matters.
        more: other parts of the data, such as labels.

    Returns:
        "content"; above `AFFORDABLE` bytes "names and sizes" and "times".
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
    """Return a hash of 12 hex digits over the `repr` of all parts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{part!r}\n".encode(errors="surrogateescape"))
    return found.hexdigest()[:12]


def _look(path: Path) -> tuple[int, int]:
    """Return size and modification time; (0, 0) if there is no regular file, which a run may skip."""
    try:
        about = os.stat(path)
    except OSError:
        return 0, 0
    return (about.st_size, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else (0, 0)


def _content(path: Path) -> str:
    """Return the SHA-256 of a file, or "" if it cannot be read."""
    found = hashlib.sha256()
    try:
        if not path.is_file():  # reading a pipe would block
            return ""
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
    except OSError:
        return ""
    return found.hexdigest()
