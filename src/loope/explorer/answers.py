"""What each address of the server sends, as bytes. Importing this imports torch, which the page does not wait for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from loope.core.errors import LoopeError, require
from loope.explorer import catalogue as offered
from loope.explorer import compare, model
from loope.explorer.numbers import read_grid, read_whole
from loope.explorer.offsets import offsets_data, read_encoder
from loope.explorer.order import order_data
from loope.explorer.uploads import Weights, read_weights
from loope.explorer.wire import to_json
from loope.explorer.work import Kept
from loope.metrics.tables import position_table


class Answers:
    """One method an address."""

    def __init__(self) -> None:
        self.files = Kept()

    def catalogue(self) -> bytes:
        """What there is to choose from."""
        return to_json(offered.catalogue(model.about()))

    def similarity(self, choice: str, height: str, width: str, dim: str) -> bytes:
        """The similarity of an encoder or of a file's table, with its scores."""
        read, grid = compare.Choice.read(choice), read_grid(height, width)
        if read.name == "file":
            return compare.table_data(position_table(self._file("~".join(read.details)).tensors, grid))
        return compare.encoder_data(read, grid, read_whole(dim, "A width"))

    def order(self, name: str, height: str, width: str) -> bytes:
        """An order and its locality."""
        return order_data(name, read_grid(height, width))

    def three_cell(self, cells: str, moving: str) -> bytes:
        """What the shipped model answers."""
        known = re.fullmatch(r"\d{1,4}(-\d{1,4}){5}", cells)
        require(known is not None, f"Three cells are six numbers, row and column of each, got {cells!r}.")
        return model.ask([int(number) for number in cells.split("-")], moving)

    def receive(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """Keep a safetensors file, and say what is in it: a `(h, w)` table, LOOPE on a grid, or why there is none."""
        weights = read_weights(body)
        name = hashlib.sha256(body).hexdigest()[:16]
        self.files.put(name, body)
        table = _told(lambda: position_table(weights.tensors).shape[:2])
        return to_json({"id": name, "table": table, "loope": _told(lambda: read_encoder(weights).grid)})

    def offsets(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """X_C of the image in the body."""
        checkpoint = query.get("checkpoint", "shipped")
        encoder = model.shipped_encoder() if checkpoint == "shipped" else read_encoder(self._file(checkpoint))
        grid = read_grid(query["height"], query.get("width", "0")) if "height" in query else None
        return offsets_data(encoder, body, grid, query.get("pixels", "signed"))

    def _file(self, name: str) -> Weights:
        body = self.files.get(name)
        if body is None:
            raise LoopeError("That file is not here any more; choose it again.")
        return read_weights(body)


def _told(look: Callable[[], Sequence[int]]) -> dict[str, object]:
    """The grid of what is looked for, or why there is none."""
    try:
        return {"grid": list(look())}
    except LoopeError as error:
        return {"error": str(error)}
