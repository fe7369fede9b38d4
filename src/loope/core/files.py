"""Writing files so that a reader sees all of one or none of it, also after a crash or a power cut."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Never an existing file, and never through a link that someone has put in its place. Windows has other flags.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_DIRECTORY", None)


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` that takes its place at the end; an interrupted write leaves what was there.

    Args:
        path: the file to write; folders that are missing are made. If it is a link, the link is replaced.
        durable: wait until the disk has it. Not for files that are worth nothing after a crash, or thousands of
            small ones that can be made again.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    descriptor = os.open(temporary, _NEW, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        sync_folder(path.parent)


def write_atomic(path: Path, data: bytes | str, *, durable: bool = True) -> Path:
    """Write all of `data` or nothing; see `replacing`."""
    with replacing(path, durable=durable) as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, and force it to disk.

    Raises:
        FileExistsError: if there is something of that name, be it a link to nowhere.
    """
    with os.fdopen(os.open(path, _NEW, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, and force their names to disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Force a folder's own entries to disk: without it a rename may be lost with the power."""
    if _FOLDER is None:  # Windows cannot open a folder
        return
    folder = os.open(path, os.O_RDONLY | _FOLDER)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
