"""One process at a time trains into a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loope.core.errors import LoopeError, require
from loope.core.files import make_folder

LOOKS = (0.01, 0.03, 0.1, 0.3)  # seconds to wait for one that only looks
OWNER_ONLY = 0o600  # who may read a lock file can lock it, and so keep its owner out
# Not through a link, and without waiting for the other end of a pipe.
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK
_HELD: set[Path] = set()  # the system lets a process take its own lock twice, and lose it by closing the second


class RunningElsewhereError(LoopeError):
    """Another process trains into the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder/lock` for this process. The system frees it when the process ends, however it ends.

    A record lock, not `flock`: children that outlive a killed process, such as loader workers, do not inherit it.

    Raises:
        RunningElsewhereError: if a process holds it already; the message names it.
        LoopeError: if it is no file that this user may lock.
    """
    make_folder(folder)
    path = _path(folder)
    if path in _HELD:
        raise _taken(folder, f"process {os.getpid()}, this one,")
    file = _open(path)
    try:
        if not _take(file):
            holder = "".join(filter(str.isprintable, os.read(file, 200).decode(errors="replace")))
            raise _taken(folder, holder or "another process")
        _HELD.add(path)
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        _HELD.discard(path)
        os.close(file)  # and with it the lock


def _path(folder: Path) -> Path:
    """Of the lock; the folder may be reached through links, the lock itself may not be one."""
    return folder.resolve() / "lock"


def _open(path: Path) -> int:
    """Open the lock of a folder, and make it its owner's alone.

    Raises:
        LoopeError: if it is not a file, or another user's.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, OWNER_ONLY)
    except OSError as error:
        what = "is a link" if error.errno == errno.ELOOP else f"cannot be opened ({error.strerror})"
        raise LoopeError(
            f"{path} {what}; it must be a file of the user who trains. Remove it if nobody trains there, or choose "
            "another folder."
        ) from error
    try:
        require(
            stat.S_ISREG(os.fstat(file).st_mode),
            f"{path} must be a file; remove what is there, or choose another folder.",
        )
        if os.fstat(file).st_uid == os.getuid():
            os.fchmod(file, OWNER_ONLY)
    except BaseException:
        os.close(file)
        raise
    return file


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
    """Whether a process, this one or another of the same user, trains into the folder now.

    Looking takes a shared lock for a moment: several may look at once. Other users cannot look.
    """
    path = _path(folder)
    if path in _HELD:  # this process would lose its own lock by closing another handle of the file
        return True
    try:
        file = os.open(path, os.O_RDONLY | _PLAIN)
    except OSError:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(file)
    return False


def _taken(folder: Path, who: str) -> RunningElsewhereError:
    return RunningElsewhereError(f"{who} is training into {folder}; wait until it ends, or choose another folder.")
