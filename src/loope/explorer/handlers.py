"""The response to each route of the API, as bytes.

Handlers import what they need when called: the page is served before torch is imported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from loope.core.errors import LoopeError, require
from loope.explorer.numbers import read_grid, read_whole
from loope.explorer.queue import Cache


class Handlers:
    """One method per route, and the uploaded files."""

    def __init__(self) -> None:
        self.files = Cache()

    def catalog(self) -> bytes:
        """Return what the page offers."""
        from loope.explorer import views

        return views.to_json(views.catalog(views.model.about(), views.diagnosis.about()))

    def similarity(self, choice: str, height: str, width: str, dim: str) -> bytes:
        """Return the similarity and scores of an encoder, or of an uploaded file's position table."""
        from loope.explorer import views

        parsed, grid = views.compare.Choice.read(choice), read_grid(height, width)
        if parsed.name == "file":
            name, *which = parsed.details or ("",)
            return views.compare.table_data(views.checkpoints.table(views.read_weights(self.file(name)), which, grid))
        return views.compare.encoder_data(parsed, grid, read_whole(dim, "A width"))

    def order(self, name: str, height: str, width: str) -> bytes:
        """Return an order and its locality."""
        from loope.explorer import views

        return views.order_data(name, read_grid(height, width))

    def three_cell(self, cells: str, moving: str) -> bytes:
        """Return the shipped model's answers."""
        from loope.explorer import views

        valid = re.fullmatch(r"\d{1,4}(-\d{1,4}){5}", cells) is not None
        require(valid, f"Three cells are six numbers, row and column of each, got {cells!r}.")
        return views.model.ask([int(number) for number in cells.split("-")], moving)

    def upload(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """Store a safetensors file, and return what it contains.

        Returns:
            JSON: the file's `id`; `choices` for Compare, those in use first, or why there are none; its `grid`, a
            guess; and LOOPE's grid, or why there is none.
        """
        from loope.explorer import views

        weights = views.read_weights(body)
        name = hashlib.sha256(body).hexdigest()[:16]
        self.files.put(name, body)
        contents = _or_error(lambda: views.checkpoints.contents(weights, name))
        loope = _or_error(lambda: {"grid": views.read_encoder(weights).grid})
        return views.to_json({"id": name, "loope": loope, **contents})

    def offsets(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """Return X_C of the image in the body."""
        from loope.explorer import views

        name = query.get("checkpoint", "shipped")
        if name == "shipped":
            encoder = views.model.shipped_encoder()
        else:
            encoder = views.read_encoder(views.read_weights(self.file(name)))
        grid = read_grid(query["height"], query.get("width", "0")) if "height" in query else None
        return views.offsets_data(encoder, body, grid, query.get("pixels", "signed"))

    def built_in(self) -> bytes:
        """Return what the shipped model does with positions, on built-in images."""
        return self.diagnosis(b"")

    def diagnosis(self, images: bytes, scale: str = "signed") -> bytes:
        """Return what the shipped model does with positions, on images of the body or, without one, built-in ones."""
        from loope.explorer import views

        return views.diagnosis.shipped_data(images, scale)

    def file(self, name: str) -> bytes:
        """Return an uploaded file.

        Raises:
            LoopeError: if it is not stored any more.
        """
        body = self.files.get(name)
        if body is None:
            raise LoopeError("That file is no longer stored; choose it again.")
        return body


def _or_error(look: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return what `look` returns, or its error message."""
    try:
        return look()
    except LoopeError as error:
        return {"error": str(error)}
