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


def read_size(text: str) -> tuple[Grid, Grid]:
    """Parse the grid that an encoding is made for and the grid that it is resized to: "14x14", or "14x14~20x20".

    Raises:
        LoopeError: unless there are one or two grids, height and width of each in whole numbers.
    """
    sizes = [tuple(part.split("x")) for part in text.split("~")]
    require(
        len(sizes) in (1, 2) and all(len(sides) == 2 for sides in sizes),
        f"A size is a grid such as 14x14, or two, as 14x14~20x20, got {text[:20]!r}.",
    )
    grids = [read_grid(height, width) for height, width in sizes]
    return grids[0], grids[-1]


def read_grid(height: str, width: str) -> Grid:
    """Parse a grid.

    Raises:
        LoopeError: unless both sides are positive whole numbers.
    """
    return as_grid((read_whole(height, "A grid's height"), read_whole(width, "A grid's width")))
