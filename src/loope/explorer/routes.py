"""The routes of the explorer's API. The server answers them; the export writes them to files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from loope.explorer.handlers import Handlers

GRID = "{height}x{width}"  # as text: the handlers parse numbers, with messages that say what is wrong


class ApiRoute(NamedTuple):
    """An address and its handler, which takes the address's parts, or a body and a query if it is posted to."""

    path: str
    handler: Callable[..., bytes]
    method: str = "GET"

    def url(self, **parts: Any) -> str:
        """Return the address with its parts filled in."""
        return self.path.format(**parts)


CATALOG = ApiRoute("/api/catalog.json", Handlers.catalog)
SIMILARITY = ApiRoute("/api/similarity/{choice}/{size}/{dim}.bin", Handlers.similarity)
ORDER = ApiRoute(f"/api/order/{{name}}/{GRID}.json", Handlers.order)
EXAMPLE = ApiRoute("/api/three-cell/example.json", Handlers.example)
THREE_CELL = ApiRoute("/api/three-cell/{moving}/{cells}.json", Handlers.three_cell)
UPLOAD = ApiRoute("/api/file.json", Handlers.upload, "POST")
OFFSETS = ApiRoute("/api/offsets.json", Handlers.offsets, "POST")
BUILT_IN = ApiRoute("/api/diagnosis/built-in.json", Handlers.built_in)
MEASURED = ApiRoute("/api/diagnosis/measured/{name}.json", Handlers.measured)
ROUTES = (CATALOG, SIMILARITY, ORDER, EXAMPLE, THREE_CELL, UPLOAD, OFFSETS, BUILT_IN, MEASURED)

# Computed by another process, so handled by the server itself.
TIMM_MODEL = "/api/similarity/timm~{name}/{size}/{dim}.bin"
DIAGNOSIS = "/api/diagnosis.json"  # posted to
CHECKPOINT = "/api/similarity/file~{name}~acts~{number}/{size}/{dim}.bin"
