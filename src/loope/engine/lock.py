"""One process at a time trains into a folder."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loope.core.errors import LoopeError

LOOKS = (0.01, 0.03, 0.1, 0.3)  # seconds to wait for one that only looks
_HELD: set[Path] = set()  # the system lets a process take its own lock twice, and lose it by closing the second


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder/lock` for this process. The system frees it when the process ends, however it ends.

    A record lock, not `flock`: children that outlive a killed process, such as loader workers, do not inherit it.

    Raises:
        LoopeError: if a process holds it already; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / "lock").resolve()
    if path in _HELD:
        raise _taken(folder, f"process {os.getpid()}, this one,")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _take(file):
            raise _taken(folder, os.read(file, 200).decode(errors="replace") or "another process")
        _HELD.add(path)
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        _HELD.discard(path)
        os.close(file)  # and with it the lock


def _take(file: int) -> bool:
    """Take the lock; a process that only looks has it for a moment, so one that is held is tried a few times."""
    for pause in (0.0, *LOOKS):
        time.sleep(pause)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            continue
        return True
    return False


def is_locked(folder: Path) -> bool:
    """Whether a process, this one or another, trains into the folder now.

    Looking takes a shared lock for a moment: several may look at once, also who may only read.
    """
    path = (folder / "lock").resolve()
    if path in _HELD:  # this process would lose its own lock by closing another handle of the file
        return True
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
    return False


def _taken(folder: Path, who: str) -> LoopeError:
    return LoopeError(f"{who} is training into {folder}; wait until it ends, or choose another folder.")
