"""Whole numbers out of an address."""

import re

from loope.core.errors import require
from loope.core.grid import Grid, as_grid


def read_whole(text: str, what: str) -> int:
    """A whole number of up to six digits; Python itself refuses to read thousands of them.

    Raises:
        LoopeError: for anything else.
    """
    known = re.fullmatch("[0-9]{1,6}", text)
    require(known is not None, f"{what} must be a whole number of up to six digits, got {text[:20]!r}.")
    return int(text)


def read_grid(height: str, width: str) -> Grid:
    """A grid.

    Raises:
        LoopeError: unless both sides are whole numbers from 1 up.
    """
    return as_grid((read_whole(height, "A grid's height"), read_whole(width, "A grid's width")))
