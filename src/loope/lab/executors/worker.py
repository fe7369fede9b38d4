"""What a process of the local executor does: read its call from stdin, make it, end with its parent."""

import os
import pickle
import signal
import sys
import threading


def main() -> None:
    """Make the call. An error ends the process with a traceback and exit code 1."""
    function, args = pickle.load(sys.stdin.buffer)  # noqa: S301 (the parent wrote it)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function(*args)


def _end_with_parent() -> None:
    """A parent that is killed closes its end of stdin: save and end, as after SIGTERM."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
