"""Worker process of the local executor: read a call from stdin, run it, and end with the parent."""

import os
import pickle
import signal
import sys
import threading


def main() -> None:
    """Run the call. An error ends the process with a traceback and exit code 1."""
    function, args = pickle.load(sys.stdin.buffer)  # noqa: S301 (the parent wrote it)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function(*args)


def _end_with_parent() -> None:
    """Send SIGTERM to this process once stdin closes, which means that the parent has died."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
