"""The page as static files, for any web server: what the explorer's own server would send, written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.encoders import list_encoders
from loope.explorer import catalog as offered
from loope.explorer.app import STATIC
from loope.explorer.compare import Choice, encoder_data
from loope.explorer.order import order_data
from loope.explorer.serialization import to_json
from loope.orders import list_orders

GRIDS = (Grid(7, 7), Grid(14, 14), Grid(7, 28))
DIM = 768
CHOOSES = {"sinusoid": "order"}  # the one option that is written out


def export(folder: Path, progress: Callable[[float], None] = lambda share: None) -> int:
    """Write Compare, Order and Three-Cell for the encoders as they are by default.

    Args:
        folder: where to; made if missing.
        progress: told the share that is done, from 0 to 1.

    Returns:
        The number of files.
    """
    files = list(_files())
    for number, (path, make) in enumerate(files):
        write_atomic(folder / path, make())
        progress((number + 1) / len(files))
    return len(files)


def _files() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Paths, and what makes their content."""
    for source in sorted(STATIC.iterdir()):
        yield source.name, source.read_bytes
    yield "api/catalogue.json", _catalogue
    for grid in GRIDS:
        for name in list_orders():
            yield f"api/order/{name}/{grid}.json", lambda name=name, grid=grid: order_data(name, grid)  # type: ignore[misc]
        for choice in _choices():
            yield (
                f"api/similarity/{choice}/{grid}/{DIM}.bin",
                lambda choice=choice, grid=grid: encoder_data(Choice.read(choice), grid, DIM),  # type: ignore[misc]
            )


def _choices() -> Iterator[str]:
    yield from list_encoders()
    for name, option in CHOOSES.items():
        default = offered.options_of(name)[option]
        yield from (f"{name}~{option}~{value}" for value in offered.CHOICES[option]() if value != default)


def _catalogue() -> bytes:
    """What the page may offer where there is no server."""
    told = offered.catalogue(None)
    for encoder in told["encoders"]:
        encoder["options"] = [each for each in encoder["options"] if CHOOSES.get(encoder["name"]) == each["name"]]
    return to_json({**told, "grids": [str(grid) for grid in GRIDS], "dims": [DIM], "free": False})
