"""Disjoint train, val and test splits.

A hash of the configuration (the cells of red, green and blue) and the seed determines its split. So splits are disjoint
for any size, and an endless stream of training samples never contains a test sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from loope.core import seeds
from loope.core.errors import require
from loope.core.grid import Grid
from loope.three_cell.questions import Numbers
from loope.three_cell.sampling import Cells, Filter

SPLITS = ("train", "val", "test")
FRACTIONS = (0.8, 0.1, 0.1)
HASH_BITS = 31


def read_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    """Check the shares of train, val and test.

    Raises:
        LoopeError: unless they are three non-negative numbers that add up to 1.
    """
    shares = tuple(fractions)
    good = len(shares) == len(SPLITS) and all(isinstance(share, (int, float)) and share >= 0 for share in shares)
    total = math.fsum(shares) if good else math.nan
    require(
        good and math.isclose(total, 1, abs_tol=1e-9),
        f"`fractions` must be three shares (train, val, test) from 0 up that add up to 1, got {shares}"
        + (f", which add up to {total:g}" if good else "")
        + f"; use {FRACTIONS}.",
    )
    return shares


def split_size(size: int, split: str, fractions: Sequence[float]) -> int:
    """Return the number of samples of a split; the three sizes add up to `size`.

    Examples:
        >>> [split_size(10_000, split, FRACTIONS) for split in SPLITS]
        [8000, 1000, 1000]

    Raises:
        LoopeError: if it is 0.
    """
    edges = _edges(fractions, size)
    place = SPLITS.index(split)
    count = edges[place + 1] - edges[place]
    require(
        count > 0,
        f"`size` must leave the split {split!r} at least one sample, got {size} with shares {tuple(fractions)}; "
        "use a larger size or share.",
    )
    return count


def part_of(split: str, seed: int, grid: Grid, fractions: Sequence[float]) -> Filter:
    """Return a filter that accepts the configurations of one split: `(n, 3, 2)` cells to `(n,)` bool."""
    place = SPLITS.index(split)
    low, high = _edges(fractions, 2**HASH_BITS)[place : place + 2]

    def belongs(cells: Cells) -> NDArray[np.bool_]:
        value = hash_cells(cells, seed, grid)
        return (value >= low) & (value < high)

    return belongs


def hash_cells(cells: Numbers, seed: int, grid: Grid) -> Numbers:
    """Hash `(n, 3, 2)` cells to `(n,)` int64 in 0..2^31-1, the same on every machine."""
    numbers = cells[..., 0] * grid.width + cells[..., 1]
    value = numbers[:, 0] ^ (derive(seed, "parts") >> (63 - HASH_BITS))
    for which in (1, 2):
        value = _scramble(value) ^ numbers[:, which]
    return _scramble(value)


def _scramble(value: Numbers) -> Numbers:
    """Apply a bijection of 0..2^31-1 that mixes all bits: shifts and odd factors whose products fit into int64."""
    mask = 2**HASH_BITS - 1
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & mask
    value = ((value ^ (value >> 15)) * 0x846CA68B) & mask
    spread: Numbers = value ^ (value >> 16)
    return spread


def derive(seed: int, *purpose: object) -> int:
    """Derive a 63-bit seed for one purpose of Three-Cell."""
    return seeds.derive("three-cell", seed, *purpose)


def _edges(fractions: Sequence[float], size: int) -> list[int]:
    """Return the boundaries of the splits among `size` items."""
    inner = [round(share * size) for share in accumulate(fractions)][:-1]
    return [0, *inner, size]
