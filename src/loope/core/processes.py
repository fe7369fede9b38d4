"""The number of processes of a run, as set by launchers such as `accelerate launch`."""

import os

from loope.core.errors import require


def world_size() -> int:
    """Return the number of processes from WORLD_SIZE, by default 1.

    Raises:
        LoopeError: if WORLD_SIZE is not a positive integer.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    good = text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0
    require(good, f"WORLD_SIZE must be a number of processes, got {text!r}; unset it, or let a launcher set it.")
    return int(text)
