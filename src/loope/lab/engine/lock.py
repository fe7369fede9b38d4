"""Lock a folder so that only one process trains into it."""

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

LOOKS = (0.01, 0.03, 0.1, 0.3)  # seconds between attempts, while another process checks the lock
OWNER_ONLY = 0o600  # whoever may read a lock file can lock it, and so keep its owner out
# Do not follow links or wait for the other end of a pipe.
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK
_HELD: set[Path] = set()  # a process could lock twice, and would lose the lock by closing the second handle


class RunningElsewhereError(LoopeError):
    """Another process is training into the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder/lock` for this process. The system releases it when the process ends, for whatever reason.

    A record lock, not `flock`: child processes such as loader workers do not inherit it.

    Raises:
        RunningElsewhereError: if another process holds it; the message names the process.
        LoopeError: if this user cannot lock the file.
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
        os.close(file)  # releases the lock


def _path(folder: Path) -> Path:
    """Return the path of the lock. Links to the folder are resolved; the lock itself must not be one."""
    return folder.resolve() / "lock"


def _open(path: Path) -> int:
    """Open the lock file and make it accessible to its owner only.

    Raises:
        LoopeError: if it is not a regular file, or belongs to another user.
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
    """Take the lock, trying a few times: a process that calls `is_locked` holds it for a moment."""
    for pause in (0.0, *LOOKS):
        time.sleep(pause)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            continue
        return True
    return False


def is_locked(folder: Path) -> bool:
    """Return whether a process of this user is training into the folder.

    Takes a shared lock for a moment, so several processes can check at once. Other users cannot check.
    """
    path = _path(folder)
    if path in _HELD:  # closing another handle would release this process's own lock
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
