"""Rings, directions and distance ranks of a grid, computed once per grid and cached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.core.ranks import average_ranks
from loope.core.serial import PIECE, root, rounded

# Cells of all centres that are processed together. On small grids few enough for PyTorch to use the calling thread
# alone; on large ones threads pay off, and a megabyte in float64 still fits into a processor's cache.
SMALL = 1024  # cells of a grid
CHUNK, LARGE_CHUNK = PIECE, 2**17
KEPT = 8  # grids; the largest part of one is half of its similarity matrix in float32


class Geometry:
    """Relative positions of the cells of a grid.

    Ring and direction of a cell depend on its offset from the centre alone, so they are stored for each of the
    (2h-1)(2w-1) offsets and looked up for a few centres at a time.

    Args:
        grid: the cells.
        directions: number of direction buckets in a full turn.
        device: device of the tables.
    """

    def __init__(self, grid: Grid, directions: int, device: torch.device):
        self.grid = grid
        self.directions = directions
        self.device = device
        rows, columns = grid.coordinates(device)
        self._place = rows * (2 * grid.width - 1) + columns  # a cell's index if the table of offsets began at 0, 0
        offsets = [(di, dj) for di in range(1 - grid.height, grid.height) for dj in range(1 - grid.width, grid.width)]
        self._squared = self._table([di * di + dj * dj for di, dj in offsets])
        # The root of an integer is never halfway between two integers, so rounding has no ties.
        self._ring = rounded(root(self._squared.double())).long()
        # As in Supp. A.5.2, in double precision by the standard library: cells next to the centre lie exactly on the
        # border of two buckets, where the last bit of another arc tangent would decide.
        step = 2 * math.pi / directions
        self._bucket = self._table([math.floor(math.atan2(dj, di) / step) % directions for di, dj in offsets])
        self.rings = int(self._ring.max()) + 1
        self.offsets = len(offsets)  # the zero offset is in the middle

    def _table(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def chunks(self) -> Iterator[slice]:
        """Iterate over the centres, a few at a time."""
        most = CHUNK if self.grid.size <= SMALL else LARGE_CHUNK
        step = max(1, most // max(self.grid.size, self.directions))
        for start in range(0, self.grid.size, step):
            yield slice(start, min(start + step, self.grid.size))

    def offset(self, centres: slice) -> Tensor:
        """Return the index of each cell's offset from each centre, `(C, N)` int64 from 0 to (2h-1)(2w-1) - 1."""
        return self._place + (self._place[-1] - self._place[centres, None])

    def ring(self, centres: slice) -> Tensor:
        """Return the rounded distance of each cell from each centre, `(C, N)` int64."""
        return self._look_up(self._ring, centres)

    def bucket(self, centres: slice) -> Tensor:
        """Return the direction bucket of each cell from each centre, `(C, N)` int64; 0 for the centre itself."""
        return self._look_up(self._bucket, centres)

    def squared_distance(self, centres: slice) -> Tensor:
        """Return the squared distance of each cell from each centre, `(C, N)` int64."""
        return self._look_up(self._squared, centres)

    def _look_up(self, table: Tensor, centres: slice) -> Tensor:
        offset = self.offset(centres)
        # Not `table[offset]`, which PyTorch splits over threads even if small.
        return table.index_select(0, offset.flatten()).view(offset.shape)

    def over_centres(self, columns: int, part: Callable[[slice], Tensor]) -> Tensor:
        """Compute `part` for a few centres at a time and return `(N, columns)` float64.

        Results are written into one tensor: small ones between large freed ones would fragment memory.
        """
        out = torch.empty(self.grid.size, columns, dtype=torch.float64, device=self.device)
        for centres in self.chunks():
            out[centres] = part(centres)
        return out

    @cached_property
    def ring_counts(self) -> Tensor:
        """Return the number of cells in each ring around each centre, `(N, rings)` float64; 0 beyond the last."""
        return self.over_centres(self.rings, lambda centres: _counts(self.ring(centres), self.rings))

    @cached_property
    def bucket_counts(self) -> Tensor:
        """Return the number of cells in each direction from each centre, `(N, directions)` float64."""
        return self.over_centres(self.directions, lambda centres: _counts(self.bucket(centres), self.directions))

    @cached_property
    def distance_ranks(self) -> Tensor:
        """Return twice the rank of each cell's distance in its bucket minus the bucket's mean, `(N, N)` integers.

        Doubled average ranks are integers, and fit into 16 bits for every grid whose similarity fits into memory.
        """
        size = self.grid.size
        ranks = torch.empty(size, size, dtype=torch.int16 if size < 2**15 else torch.int32, device=self.device)
        for centres in self.chunks():
            bucket = self.bucket(centres)
            key = bucket * int(self._squared.max() + 1) + self.squared_distance(centres)
            ranks[centres] = (2 * self.centred(average_ranks(key), bucket, centres)).to(ranks.dtype)
        return ranks

    @cached_property
    def distance_spread(self) -> Tensor:
        """Return the sum of squares of `distance_ranks` in each bucket, `(N, directions)` float64."""

        def spread(centres: slice) -> Tensor:
            return add_up(self.distance_ranks[centres].double().square(), self.bucket(centres), self.directions)

        return self.over_centres(self.directions, spread)

    def centred(self, ranks: Tensor, bucket: Tensor, centres: slice) -> Tensor:
        """Subtract the mean rank of each cell's bucket from ranks over a whole row, `(C, N)`.

        Args:
            ranks: `(C, N)` float64, average ranks of keys that compare buckets first.
            bucket: `(C, N)` int64.
            centres: the rows' centres.
        """
        counts = self.bucket_counts[centres]
        middle = counts.cumsum(-1) - (counts - 1) / 2  # ties within a bucket do not change its mean rank
        return ranks - middle.gather(-1, bucket)


@lru_cache(maxsize=KEPT)
def geometry(grid: Grid, directions: int, device: torch.device) -> Geometry:
    """Return the geometry of a grid, cached."""
    return Geometry(grid, directions, device)


def add_up(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Sum `(C, N)` values by group in each row: `(C, groups)` float64."""
    return values.new_zeros(len(values), groups).scatter_add_(-1, group, values)


def _counts(group: Tensor, groups: int) -> Tensor:
    return add_up(torch.ones_like(group, dtype=torch.float64), group, groups)
