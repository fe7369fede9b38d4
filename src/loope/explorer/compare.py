"""The data of the Compare view: similarity matrix, PESI with its ceilings, and PESI's maps."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.encoders import PositionalEncoder, create_encoder
from loope.encoders.describe import usual_heads
from loope.explorer.catalog import check_size, read_options
from loope.explorer.seeded import seeded
from loope.explorer.serialization import pack
from loope.explorer.uploads import Weights
from loope.pesi_metric.functional import measure
from loope.pesi_metric.published import DIRECTIONS, published
from loope.pesi_metric.summary import summary_of
from loope.surgery.acting import EncodingInUse, acting

MOST_LETTERS = 300  # of a choice


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


def encoder_data(choice: Choice, grid: Grid, dim: int, shown: Grid | None = None) -> bytes:
    """Return the data of an untrained encoder, with seed 0, in a ViT with heads of 64 channels and 12 blocks.

    Args:
        choice: the encoder and its options.
        grid: the grid to create it for.
        dim: width D.
        shown: the grid to resize it to; by default it stays.

    Raises:
        LoopeError: if the encoder, an option or the size is not supported.
    """
    check_size(grid, dim)
    options = choice.options()
    heads = usual_heads(dim)
    with seeded():
        encoder = create_encoder(choice.name, dim, grid, patch_size=16, heads=heads, depth=12, **options)
    made = resized(EncodingInUse(choice.name, encoder, grid, dim), shown or grid)
    paper = None if options or made.grid != grid else published(choice.name, grid, dim, DIRECTIONS)
    return _data(made, paper and paper._asdict())


def table_data(table: Tensor, shown: Grid | None = None) -> bytes:
    """Return the data of a model's own `(h, w, D)` position table, resampled to the grid `shown`.

    Raises:
        LoopeError: if the table is too large, or has zero vectors.
    """
    height, width, dim = table.shape
    grid = Grid(height, width)
    check_size(grid)
    return _data(resized(EncodingInUse("", table, grid, dim), shown or grid))


class Trained:
    """The encodings in use in a checkpoint, as trained; they are built once for all sizes that they are shown at."""

    def __init__(self, file: Weights):
        self._file = file
        self._built: tuple[Grid, list[EncodingInUse]] | None = None

    def data(self, number: int, grid: Grid, shown: Grid) -> bytes:
        """Return the data of one of them.

        Args:
            number: the index of the encoding.
            grid: the grid of its patches, if it is a position table; an attached encoder knows its own.
            shown: the grid to resize it to.

        Raises:
            LoopeError: if there is no such encoding, it cannot be built, or the page cannot show its size.
        """
        if self._built is None or self._built[0] != grid:
            self._built = grid, acting(self._file.tensors, self._file.metadata, grid=grid).positions
        found = self._built[1]
        require(number < len(found), f"The file has {len(found)} encodings in use; choose it again.")
        check_size(found[number].grid, found[number].dim)
        return _data(resized(deepcopy(found[number]), shown))  # a copy: encoders resize themselves


def resized(positions: EncodingInUse, grid: Grid) -> EncodingInUse:
    """Move an encoding to another grid, as `loope.resize` does in a model: encoders themselves, tables resampled."""
    source = positions.source
    if grid == positions.grid:
        return positions
    check_size(grid)
    if isinstance(source, Tensor):
        table = source.flatten(0, 1)
        with seeded():
            source = create_encoder("learned", positions.dim, positions.grid)
        source.fit(table)
    return positions._replace(source=source.resize(grid), grid=grid)


def _data(positions: EncodingInUse, paper: dict[str, Any] | None = None) -> bytes:
    similarity, source = positions.similarity(), positions.source
    scores = measure(similarity, positions.grid)
    summary = summary_of(scores, similarity, positions.grid)
    about = {
        "grid": list(positions.grid),
        "dim": positions.dim,
        "unit": _unit(source),
        "scores": {**summary._asdict(), "a_su_says_little": summary.a_su_says_little},
        "published": paper,
    }
    return pack(about, {"similarity": similarity, **scores.maps._asdict()})


def _unit(source: PositionalEncoder | Tensor) -> str:
    """Return what the similarity is in: only alike ones share a scale of colours."""
    if isinstance(source, Tensor) or "bias" not in source.kinds():
        return "cosine"
    # Its bias is minus infinity for patches that a head does not see, so its similarity is the exponential.
    return "exp(bias)" if source.name == "lookhere" else "bias"
