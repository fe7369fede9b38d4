"""What Compare shows of an encoder or a table: its similarity matrix, PESI with its ceilings, and PESI's maps."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import torch
from torch import Tensor

from loope.attach.acting import Positions
from loope.core.errors import require
from loope.core.grid import Grid
from loope.encoders import PositionalEncoder, create_encoder
from loope.encoders.describe import usual_heads
from loope.encoders.similarity import encoder_similarity
from loope.explorer.catalogue import check_size, read_options
from loope.explorer.wire import pack
from loope.metrics.pesi import cosine_similarity, measure
from loope.metrics.published import DIRECTIONS, published
from loope.metrics.summary import summary_of

LONGEST = 300  # letters of a choice
_SEEDING = threading.Lock()  # torch has one random generator for all threads


class Choice(NamedTuple):
    """What is compared, as in the page's address: `sinusoid~order~hilbert`, or `file~ID~aside~0`."""

    name: str
    details: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Choice:
        """Split at the tildes.

        Raises:
            LoopeError: for more than any choice needs; a name is looked for among the known ones, letter by letter.
        """
        require(len(text) <= LONGEST, f"What is compared is told in up to {LONGEST} letters, got {len(text)}.")
        name, *details = text.split("~")
        return cls(name, tuple(details))

    def options(self) -> dict[str, Any]:
        """An encoder's options.

        Raises:
            LoopeError: for options that are not offered.
        """
        pairs = dict(zip(self.details[::2], self.details[1::2], strict=False))
        require(len(self.details) == 2 * len(pairs), f"Options are pairs of a name and a value, got {self.details}.")
        return read_options(self.name, pairs)


def encoder_data(choice: Choice, grid: Grid, dim: int) -> bytes:
    """An encoder as it is before training, with seed 0, in a ViT with heads of 64 channels and 12 blocks.

    Raises:
        LoopeError: for an unknown encoder or option, or a size that it or the page cannot take.
    """
    check_size(grid, dim)
    options = choice.options()
    heads = usual_heads(dim)
    with _SEEDING:
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` seeds all devices, which takes a millisecond
        encoder = create_encoder(choice.name, dim, grid, patch_size=16, heads=heads, depth=12, **options)
    unit = "bias" if "bias" in encoder.hooks() else "cosine"
    paper = None if options else published(choice.name, grid, dim, DIRECTIONS)
    return _data(encoder_similarity(encoder), grid, dim, unit, paper and paper._asdict())


def table_data(table: Tensor) -> bytes:
    """A model's own `(h, w, D)` table.

    Raises:
        LoopeError: for a table that is too large, or has vectors without a direction.
    """
    height, width, dim = table.shape
    grid = Grid(height, width)
    check_size(grid)
    return _data(cosine_similarity(table), grid, dim, "cosine", None)


def positions_data(positions: Positions) -> bytes:
    """What acts in a checkpoint: an encoder with its weights, or a table.

    Raises:
        LoopeError: for more than the page can show.
    """
    check_size(positions.grid, positions.dim)
    bias = isinstance(positions.source, PositionalEncoder) and "bias" in positions.source.hooks()
    return _data(positions.similarity(), positions.grid, positions.dim, "bias" if bias else "cosine", None)


def _data(similarity: Tensor, grid: Grid, dim: int, unit: str, paper: dict[str, Any] | None) -> bytes:
    scores = measure(similarity, grid)
    summary = summary_of(scores, similarity, grid)
    about = {
        "grid": list(grid),
        "dim": dim,
        "unit": unit,
        "scores": {**summary._asdict(), "a_su_says_little": summary.a_su_says_little},
        "published": paper,
    }
    return pack(about, {"similarity": similarity, **scores.maps._asdict()})
