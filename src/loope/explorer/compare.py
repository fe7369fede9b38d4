"""The data of the Compare view: similarity matrix, PESI with its ceilings, and PESI's maps."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.encoders import PositionalEncoder, create_encoder
from loope.encoders.describe import usual_heads
from loope.explorer.catalog import check_size, read_options
from loope.explorer.serialization import pack
from loope.pesi_metric.functional import measure
from loope.pesi_metric.published import DIRECTIONS, published
from loope.pesi_metric.summary import summary_of
from loope.surgery.acting import EncodingInUse

MOST_LETTERS = 300  # of a choice
_SEED_LOCK = threading.Lock()  # torch has one random generator for all threads


class Choice(NamedTuple):
    """What to compare, as in the page's address: `sinusoid~order~hilbert` or `file~ID~aside~0`."""

    name: str
    details: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Choice:
        """Split at the tildes.

        Raises:
            LoopeError: if the text is too long; suggesting similar names takes time that grows with it.
        """
        require(len(text) <= MOST_LETTERS, f"A choice has up to {MOST_LETTERS} letters, got {len(text)}.")
        name, *details = text.split("~")
        return cls(name, tuple(details))

    def options(self) -> dict[str, Any]:
        """Parse the encoder's options.

        Raises:
            LoopeError: if an option is not offered.
        """
        pairs = dict(zip(self.details[::2], self.details[1::2], strict=False))
        require(len(self.details) == 2 * len(pairs), f"Options are pairs of a name and a value, got {self.details}.")
        return read_options(self.name, pairs)


def encoder_data(choice: Choice, grid: Grid, dim: int) -> bytes:
    """Return the data of an untrained encoder, with seed 0, in a ViT with heads of 64 channels and 12 blocks.

    Raises:
        LoopeError: if the encoder, an option or the size is not supported.
    """
    check_size(grid, dim)
    options = choice.options()
    heads = usual_heads(dim)
    with _SEED_LOCK:
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` seeds all devices, which takes a millisecond
        encoder = create_encoder(choice.name, dim, grid, patch_size=16, heads=heads, depth=12, **options)
    paper = None if options else published(choice.name, grid, dim, DIRECTIONS)
    return _data(EncodingInUse(choice.name, encoder, grid, dim), paper and paper._asdict())


def table_data(table: Tensor) -> bytes:
    """Return the data of a model's own `(h, w, D)` position table.

    Raises:
        LoopeError: if the table is too large, or has zero vectors.
    """
    height, width, dim = table.shape
    grid = Grid(height, width)
    check_size(grid)
    return _data(EncodingInUse("", table, grid, dim))


def positions_data(positions: EncodingInUse) -> bytes:
    """Return the data of a checkpoint's encoder with its weights, or of its position table.

    Raises:
        LoopeError: if the page cannot show its size.
    """
    check_size(positions.grid, positions.dim)
    return _data(positions)


def _data(positions: EncodingInUse, paper: dict[str, Any] | None = None) -> bytes:
    similarity, source = positions.similarity(), positions.source
    scores = measure(similarity, positions.grid)
    summary = summary_of(scores, similarity, positions.grid)
    about = {
        "grid": list(positions.grid),
        "dim": positions.dim,
        "unit": "bias" if isinstance(source, PositionalEncoder) and "bias" in source.kinds() else "cosine",
        "scores": {**summary._asdict(), "a_su_says_little": summary.a_su_says_little},
        "published": paper,
    }
    return pack(about, {"similarity": similarity, **scores.maps._asdict()})
