"""Write the page as static files that any web server can serve, under the server's own addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.encoders import list_encoders
from loope.explorer import catalog, diagnosis
from loope.explorer.app import STATIC
from loope.explorer.handlers import Handlers
from loope.explorer.routes import BUILT_IN, CATALOG, MEASURED, ORDER, SIMILARITY, ApiRoute
from loope.explorer.serialization import to_json
from loope.orders import list_orders

GRIDS = (Grid(7, 7), Grid(14, 14), Grid(7, 28))
DIM = 768
EXPORTED_OPTIONS = {"sinusoid": "order"}  # by encoder; the other options keep their defaults


def export(folder: Path, progress: Callable[[float], None] = lambda share: None) -> int:
    """Write Compare and Order for encoders with their default options, Three-Cell, and Model for what ships.

    Args:
        folder: destination; created if missing.
        progress: called with the share that is done, from 0 to 1.

    Returns:
        The number of files.
    """
    files = list(_files())
    for number, (path, make) in enumerate(files):
        write_atomic(folder / path, make())
        progress((number + 1) / len(files))
    return len(files)


def _files() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield each file's path, and a function that returns its content."""
    for source in sorted(STATIC.iterdir()):
        yield source.name, source.read_bytes
    yield _path(CATALOG), _catalog
    handlers = Handlers()
    for route, parts in _requests():
        yield _path(route, **parts), partial(route.handler, handlers, **parts)


def _requests() -> Iterator[tuple[ApiRoute, dict[str, str]]]:
    """Yield the requests whose responses are exported."""
    yield BUILT_IN, {}
    for name in diagnosis.MEASURED:
        yield MEASURED, {"name": name}
    for grid in GRIDS:
        size = {"height": str(grid.height), "width": str(grid.width)}
        for name in list_orders():
            yield ORDER, {"name": name, **size}
        for choice in _choices():
            yield SIMILARITY, {"choice": choice, "size": str(grid), "dim": str(DIM)}


def _path(route: ApiRoute, **parts: Any) -> str:
    return route.url(**parts).removeprefix("/")


def _choices() -> Iterator[str]:
    yield from list_encoders()
    for name, option in EXPORTED_OPTIONS.items():
        default = catalog.options_of(name)[option]
        yield from (f"{name}~{option}~{value}" for value in catalog.CHOICES[option]() if value != default)


def _catalog() -> bytes:
    """Return what the page offers without a server."""
    offered = catalog.catalog(None, diagnosis.about())
    for encoder in offered["encoders"]:
        exported = EXPORTED_OPTIONS.get(encoder["name"])
        encoder["options"] = [option for option in encoder["options"] if option["name"] == exported]
    return to_json({**offered, "grids": [str(grid) for grid in GRIDS], "dims": [DIM], "free": False})
