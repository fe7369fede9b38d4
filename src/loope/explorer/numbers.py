"""Parse numbers in addresses."""

import re

from loope.core.errors import require
from loope.core.grid import Grid, as_grid


def read_whole(text: str, what: str) -> int:
    """Parse a whole number of up to six digits.

    Raises:
        LoopeError: if it is anything else.
    """
    require(
        re.fullmatch("[0-9]{1,6}", text) is not None,
        f"{what} must be a whole number of up to six digits, got {text[:20]!r}.",
    )
    return int(text)


def read_grid(height: str, width: str) -> Grid:
    """Parse a grid.

    Raises:
        LoopeError: unless both sides are positive whole numbers.
    """
    return as_grid((read_whole(height, "A grid's height"), read_whole(width, "A grid's width")))
