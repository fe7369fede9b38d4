"""The response to each route of the API, as bytes.

Handlers import what they need when called: the page is served before torch is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loope.core.errors import LoopeError, require
from loope.explorer.numbers import read_grid, read_size, read_whole
from loope.explorer.queue import Cache

if TYPE_CHECKING:
    from loope.explorer.files import NamedFile


class Handlers:
    """One method per route, and the files to look at.

    Args:
        checkpoints: files that are offered from the start; uploaded ones are added.
    """

    def __init__(self, checkpoints: Sequence[Path] = ()) -> None:
        self.files = Cache()
        self.named: dict[str, NamedFile] = {}
        for path in checkpoints:
            from loope.explorer import views

            named = views.read_named(path)
            self.named[named.id] = named

    def catalog(self) -> bytes:
        """Return what the page offers."""
        from loope.explorer import views

        files = [{"name": each.path.name, **each.contents} for each in self.named.values()]
        return views.to_json(views.catalog(views.model.about(), views.diagnosis.about(), files))

    def similarity(self, choice: str, size: str, dim: str) -> bytes:
        """Return the similarity and scores of an encoder, or of an uploaded file's position table."""
        from loope.explorer import views

        parsed, (grid, shown) = views.compare.Choice.read(choice), read_size(size)
        if parsed.name == "file":
            name, *which = parsed.details or ("",)
            table = views.checkpoints.table(views.read_weights(self.file(name)), which, grid)
            return views.compare.table_data(table, shown)
        return views.compare.encoder_data(parsed, grid, read_whole(dim, "A width"), shown)

    def order(self, name: str, height: str, width: str) -> bytes:
        """Return an order and its locality."""
        from loope.explorer import views

        return views.order_data(name, read_grid(height, width))

    def example(self) -> bytes:
        """Return three cells about which the shipped model is right."""
        from loope.explorer import views

        return views.model.example()

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

        told = views.describe_file(body)
        self.files.put(str(told["id"]), body)
        return views.to_json(told)

    def offsets(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """Return X_C of the image in the body."""
        from loope.explorer import views

        name = query.get("checkpoint", "three-cell")
        if name in views.model.ENCODERS:
            encoder = views.model.shipped_encoder(name)
        else:
            encoder = views.read_encoder(views.read_weights(self.file(name)))
        grid = read_grid(query["height"], query.get("width", "0")) if "height" in query else None
        return views.offsets_data(encoder, body, grid, query.get("pixels", "signed"))

    def built_in(self) -> bytes:
        """Return what the shipped model does with positions, on built-in images."""
        return self.diagnosis(b"")

    def measured(self, name: str) -> bytes:
        """Return a shipped result of the Model view."""
        from loope.explorer import views

        return views.diagnosis.measured_data(name)

    def diagnosis(self, images: bytes, scale: str = "signed") -> bytes:
        """Return what the shipped model does with positions, on images of the body or, without one, built-in ones."""
        from loope.explorer import views

        return views.diagnosis.shipped_data(images, scale)

    def file(self, name: str) -> bytes:
        """Return an uploaded file, or the encoders and position tables of one named at the start.

        Raises:
            LoopeError: if it is not stored any more.
        """
        if name in self.named:
            return self.named[name].encoders
        body = self.files.get(name)
        if body is None:
            raise LoopeError("That file is no longer stored; choose it again.")
        return body

    def whole_file(self, name: str) -> bytes:
        """Return an uploaded file, or all of one named at the start.

        Raises:
            LoopeError: if it is not stored any more.
        """
        return self.named[name].path.read_bytes() if name in self.named else self.file(name)
