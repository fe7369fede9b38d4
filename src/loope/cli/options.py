"""What several commands share: options, readers of their values, and a sign of life."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from loope.core.errors import require
from loope.core.grid import Grid, as_grid
from loope.core.packages import require_packages

MOST_SEED = 2**63 - 1  # what torch takes
MOST_JOBS = 1024
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """Show on a terminal that something takes a while; what is printed for scripts stays clean."""
    from rich.console import Console

    with Console(stderr=True).status(f"{doing} ..."):
        yield


def require_drawing(path: Path) -> None:
    """Check that a drawing can be made, before the work that it would show.

    Raises:
        LoopeError: if the file is no PNG, or matplotlib is missing.
    """
    require(
        path.suffix == ".png",
        f"Drawings are PNG files; name {path.with_suffix('.png') if path.name else 'orders.png'} instead of "
        f"{str(path)!r}.",
    )
    require_packages("A drawing", "plots", "matplotlib")


def read_grid(text: str) -> Grid:
    """A grid written as `14x14` or `14`.

    Raises:
        LoopeError: if it is written otherwise.
    """
    match = re.fullmatch(r"([0-9]{1,10})(?:x([0-9]{1,10}))?", text)
    require(match is not None, f"A grid is written as HEIGHTxWIDTH, got {text!r}; for example 14x14 or 7x28.")
    assert match is not None  # noqa: S101  (for the type checker; `require` has seen to it)
    return as_grid((int(match[1]), int(match[2] or match[1])))
