"""How many processes share each run, as launchers such as `accelerate launch` say it."""

import os

from loope.core.errors import require


def world_size() -> int:
    """The number of processes, 1 if nothing says otherwise.

    Raises:
        LoopeError: if WORLD_SIZE is no number of processes.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    good = text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0
    require(good, f"WORLD_SIZE must be a number of processes, got {text!r}; unset it, or let a launcher set it.")
    return int(text)
