"""End a local Ray when the process that started it is killed.

Otherwise Ray's agents stay for a minute: they report their end to a server that is gone, and wait for its answer.
"""

import os
import select
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
LOOK_EVERY = 1.0  # seconds

Process = tuple[int, str]  # its id, and when it started: ids are used again


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
    """Remember marked processes and what they start until stdin closes, then end those that are left."""
    known = family(mark)
    # Ray's agents write their titles over their environment, and with it the mark: only their parents show whose they
    # are, and only while these live.
    while not select.select([0], [], [], LOOK_EVERY)[0] or os.read(0, 1):
        known |= family(mark)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process, _ in known & _running().keys():
            with suppress(ProcessLookupError):
                os.kill(process, number)
        until = time.monotonic() + GRACE
        while known & _running().keys() and time.monotonic() < until:
            time.sleep(0.1)


def family(mark: str) -> set[Process]:
    """Return the marked processes and all that descend from them; empty on systems without /proc."""
    running = _running()
    found = {process for process in running if _is_marked(process[0], mark)}
    size = -1
    while size < len(found):
        size, parents = len(found), {process for process, _ in found}
        found |= {process for process, parent in running.items() if parent in parents}
    return found


def _running() -> dict[Process, int]:
    """Return every process with the id of its parent; the ended ones that nobody waited for are left out."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            # The name, in brackets, may hold anything; state and parent follow it, and the start is the 20th field.
            state, parent, *rest = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if state != "Z":
                found[int(folder.name), rest[17]] = int(parent)
    return found


def _is_marked(process: int, mark: str) -> bool:
    with suppress(OSError):  # it has ended, or belongs to another user
        return f"{MARK}={mark}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return False


if __name__ == "__main__":
    main(sys.argv[1])
