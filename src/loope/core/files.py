"""Atomic file writes, also across crashes and power cuts."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Never open an existing file or follow a link. Windows has other flags.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_DIRECTORY", None)


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` at the end; an interrupted write leaves `path` unchanged.

    Args:
        path: the file to write. Missing folders are created; a link is replaced.
        durable: wait until the data is on disk. Not needed for temporary files, or thousands of small files that can
            be written again.
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
    """Write a new file and sync it to disk.

    Raises:
        FileExistsError: if the path exists, even as a broken link.
    """
    with os.fdopen(os.open(path, _NEW, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def is_path(name: str) -> bool:
    """Return whether a name is that of a .safetensors file or a folder, and not of a model."""
    return name.endswith(".safetensors") or os.sep in name or Path(name).is_dir()


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, and sync them to disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Sync a folder's entries to disk; otherwise a power cut may undo a rename."""
    if _FOLDER is None:  # Windows cannot open a folder
        return
    folder = os.open(path, os.O_RDONLY | _FOLDER)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
