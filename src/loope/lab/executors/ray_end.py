"""End a local Ray when the process that started it is killed.

Otherwise Ray's agents stay for a minute: they report their end to a server that is gone, and wait for its answer.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

MARK = "LOOPE_RAY"  # environment variable inherited by all processes of one Ray
GRACE = 3.0  # seconds for processes to end by themselves


@contextmanager
def ended_with_this_process() -> Iterator[subprocess.Popen[bytes]]:
    """Wrap the start of a Ray; its processes are ended once the watcher's stdin closes, as when this process dies."""
    mark = token_hex(16)
    # Run as a file, without importing the package, and in its own session, out of reach of Ctrl-C.
    command = [sys.executable, "-I", __file__, mark]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd="/")  # noqa: S603
    os.environ[MARK] = mark
    try:
        yield watcher
    finally:
        del os.environ[MARK]


def end(watcher: subprocess.Popen[bytes]) -> None:
    """Close the watcher's stdin and wait for it to clean up."""
    watcher.communicate()


def main(mark: str) -> None:
    """Wait until stdin closes, then end all marked processes."""
    while os.read(0, 1):
        pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(process, number)
        until = time.monotonic() + GRACE
        while marked(mark) and time.monotonic() < until:
            time.sleep(0.1)


def marked(mark: str) -> list[int]:
    """Return the ids of marked processes; empty on systems without /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
