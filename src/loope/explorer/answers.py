"""What each address of the server sends, as bytes. Importing this imports torch, which the page does not wait for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from loope.core.errors import LoopeError, require
from loope.explorer import catalogue as offered
from loope.explorer import checkpoints, compare, model
from loope.explorer.numbers import read_grid, read_whole
from loope.explorer.offsets import offsets_data, read_encoder
from loope.explorer.order import order_data
from loope.explorer.uploads import read_weights
from loope.explorer.wire import to_json
from loope.explorer.work import Kept


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
            return compare.table_data(
                checkpoints.table(read_weights(self.file(read.details[:1])), read.details[1:], grid)
            )
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
        """Keep a safetensors file, and say what is in it.

        Returns:
            JSON: the file's `id`; `choices` for Compare, what acts first, or why there are none; its `grid`, a guess;
            and LOOPE's grid, or why there is none.
        """
        weights = read_weights(body)
        name = hashlib.sha256(body).hexdigest()[:16]
        self.files.put(name, body)
        told = {"id": name, "loope": _told(lambda: {"grid": read_encoder(weights).grid})}
        return to_json({**told, **_told(lambda: checkpoints.contents(weights, name))})

    def offsets(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """X_C of the image in the body."""
        checkpoint = query.get("checkpoint", "shipped")
        encoder = (
            model.shipped_encoder() if checkpoint == "shipped" else read_encoder(read_weights(self.file([checkpoint])))
        )
        grid = read_grid(query["height"], query.get("width", "0")) if "height" in query else None
        return offsets_data(encoder, body, grid, query.get("pixels", "signed"))

    def file(self, name: Sequence[str]) -> bytes:
        """A file that was received.

        Raises:
            LoopeError: if it is not there.
        """
        body = self.files.get(name[0]) if name else None
        if body is None:
            raise LoopeError("That file is not here any more; choose it again.")
        return body


def _told(look: Callable[[], dict[str, object]]) -> dict[str, object]:
    """What is looked for, or why it is not there."""
    try:
        return look()
    except LoopeError as error:
        return {"error": str(error)}
