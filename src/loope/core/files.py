"""Writing files so that a reader sees all of one or none of it."""

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes | str) -> Path:
    """Write to a temporary name beside `path`, then rename; an interrupted write leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
