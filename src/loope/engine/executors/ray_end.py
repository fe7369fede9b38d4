"""What ends the Ray that a driver has started when the driver is killed: Ray's own agents would live on for a minute.

They first report their end to a server that has ended too, and wait for its answer.
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

MARK = "LOOPE_RAY"  # a variable that all processes of one Ray inherit
GRACE = 3.0  # seconds for them to end by themselves


@contextmanager
def ended_with_this_process() -> Iterator[subprocess.Popen[bytes]]:
    """Around the start of a Ray: its processes are ended soon after the watcher's stdin closes, as by our death."""
    mark = token_hex(16)
    # As a file, which needs nothing else of this package; in a session of its own, which Ctrl-C does not reach.
    command = [sys.executable, "-I", __file__, mark]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd="/")  # noqa: S603
    os.environ[MARK] = mark
    try:
        yield watcher
    finally:
        del os.environ[MARK]


def end(watcher: subprocess.Popen[bytes]) -> None:
    """Have the watcher look once more, and wait for it."""
    watcher.communicate()


def main(mark: str) -> None:
    """Wait for the end of stdin, then end what bears the mark."""
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
    """Processes that were started with the mark; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
