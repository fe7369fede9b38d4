"""The positions of a batch of patches, as data that travels with the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import _register_namedtuple

from loope.core.errors import require, shown
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.positions.checks import as_grids, as_index, as_numbers, check_places, check_shapes, is_list


class Positions(NamedTuple):
    """Where each patch of a batch is, in cells of its image's grid.

    Make them with `grid`, `batch`, `packed` or `at`; choose patches with `take`; move them with `shift`, `scale` and
    `jitter`. All of these return new positions. A whole grid has no tensors, so encoders can cache what depends on it.

    Attributes:
        grids: the grid of each image; a single one serves all rows.
        cells: `(1 or B, N)` int64, the row-major cell of each patch in its image's grid; None if not needed.
        moved: `(1 or B, N, 2)` float, row and column of each patch, if patches are not at cells.
        valid: `(1 or B, N)` bool, False for padding; None if there is none.
        sequence: `(1 or B, N)` int64, the image of each patch in a packed sequence, as an index into `grids`.

    Examples:
        >>> positions = Positions.grid(2, 3)
        >>> positions.coordinates[0].tolist()
        [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]
        >>> positions.take([5, 0]).coordinates[0].tolist()
        [[1.0, 2.0], [0.0, 0.0]]
        >>> Positions.batch([(1, 2), (2, 2)]).valid.tolist()
        [[True, True, False, False], [True, True, True, True]]
        >>> Positions.packed([(1, 2), (2, 2)]).sequence.tolist()
        [[0, 0, 1, 1, 1, 1]]
    """

    grids: tuple[Grid, ...]
    cells: Tensor | None = None
    moved: Tensor | None = None
    valid: Tensor | None = None
    sequence: Tensor | None = None

    # Ways to make positions.

    @classmethod
    def grid(cls, height: GridLike, width: int | None = None) -> Positions:
        """Return all cells of a grid in row-major order, for any number of images."""
        return cls((as_grid(height if width is None else (height, width)),))  # type: ignore[arg-type]

    @classmethod
    def batch(cls, sizes: Sequence[GridLike], device: torch.device | str | None = None) -> Positions:
        """Return whole grids of several sizes, one image per row, padded at the end to the longest."""
        grids = as_grids(sizes)
        if len(set(grids)) == 1:
            return cls(grids[:1])
        longest = max(grid.size for grid in grids)
        count = torch.arange(longest, device=device)
        sizes_ = torch.tensor([[grid.size] for grid in grids], device=device)
        valid = count < sizes_
        return cls(grids, cells=torch.where(valid, count, 0), valid=valid)

    @classmethod
    def packed(cls, sizes: Sequence[GridLike], device: torch.device | str | None = None) -> Positions:
        """Return whole grids of several sizes, one after the other in one sequence, `(1, N)`."""
        grids = as_grids(sizes)
        cells = torch.cat([torch.arange(grid.size, device=device) for grid in grids])
        lengths = torch.tensor([grid.size for grid in grids], device=device)
        sequence = torch.arange(len(grids), device=device).repeat_interleave(lengths)
        return cls(grids, cells=cells[None], sequence=sequence[None])

    @classmethod
    def at(
        cls,
        coordinates: Tensor,
        grids: GridLike | Sequence[GridLike],
        *,
        valid: Tensor | None = None,
        sequence: Tensor | None = None,
    ) -> Positions:
        """Return patches at given coordinates.

        Args:
            coordinates: `(N, 2)` or `(1 or B, N, 2)`, row and column of the patch centres; cell centres are integers.
            grids: (height, width) of the grid of all images, or a list with one for each image.
            valid: `(1 or B, N)` bool, False for padding.
            sequence: `(1 or B, N)` integer, for packed sequences: the image of each patch.

        Raises:
            LoopeError: for coordinates that are not finite or not in their image's grid, or shapes that do not fit.
        """
        require(isinstance(coordinates, Tensor), f"`coordinates` must be a tensor, got {shown(coordinates)}.")
        points = coordinates[None] if coordinates.dim() == 2 else coordinates
        require(
            points.dim() == 3 and points.shape[-1] == 2 and not points.is_complex() and points.dtype != torch.bool,
            f"`coordinates` must be (1 or B, N, 2) real numbers, got {coordinates.dtype} of shape "
            f"{tuple(coordinates.shape)}.",
        )
        made = cls(as_grids(grids) if is_list(grids) else (as_grid(grids),), None, points, valid, sequence)  # type: ignore[arg-type]
        check_shapes(made)
        check_places(made)
        if valid is not None:  # padding may be anywhere, even nowhere
            points = torch.where(valid[..., None], points, 0)
            made = made._replace(moved=points)
        if not points.is_floating_point() or bool((points.round() == points).all()):
            return made._replace(cells=made.nearest(), moved=None)
        return made

    # What they are.

    @property
    def whole(self) -> Grid | None:
        """Return the grid if these are all of its cells in row-major order, else None."""
        return self.grids[0] if self.cells is None and self.moved is None else None

    @property
    def length(self) -> int:
        """Return the number N of patches in a row."""
        if self.moved is not None:
            return self.moved.shape[1]
        return self.grids[0].size if self.cells is None else self.cells.shape[1]

    @property
    def rows(self) -> int:
        """Return the number of rows: 1 if all images have the same positions, else B."""
        return max(1 if each is None else each.shape[0] for each in (self.cells, self.moved, self.valid, self.sequence))

    @property
    def coordinates(self) -> Tensor:
        """Return row and column of each patch, `(1 or B, N, 2)` float; float32 unless they were given otherwise."""
        return self.plane(torch.float32)[0] if self.moved is None else self.moved

    @property
    def device(self) -> torch.device | None:
        """Return the device of the tensors; None for a whole grid, which has none."""
        return next((each.device for each in self[1:] if each is not None), None)

    def plane(self, dtype: torch.dtype, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """Return coordinates `(1 or B, N, 2)` and the size of each patch's grid, broadcastable to them, as `dtype`."""
        device = self.device or device
        if len(self.grids) == 1:
            sizes = torch.tensor([[self.grids[0]]], dtype=dtype, device=device)
        else:
            sizes = torch.tensor(self.grids, dtype=dtype, device=device)[self.image()]
        if self.moved is not None:
            return self.moved.to(dtype), sizes
        cells = torch.arange(self.length, device=device)[None] if self.cells is None else self.cells
        width = sizes[..., 1].long()
        return torch.stack((cells // width, cells % width), dim=-1).to(dtype), sizes

    def nearest(self) -> Tensor:
        """Return the cell nearest to each patch, `(1 or B, N)` int64, row-major in its image's grid."""
        if self.moved is None:
            return torch.arange(self.length)[None] if self.cells is None else self.cells
        points, sizes = self.plane(torch.float64 if self.moved.dtype == torch.float64 else torch.float32)
        row, column = torch.minimum(points.round().clamp(min=0), sizes - 1).long().unbind(-1)
        return row * sizes[..., 1].long() + column

    def visible(self) -> Tensor | None:
        """Return which keys each query may see, `(1 or B, N, N)` bool; None if all.

        Patches see those of their own image, and no padding. Padding sees itself too, so that no row is empty.
        """
        seen = None
        if self.sequence is not None:
            seen = self.sequence[:, :, None] == self.sequence[:, None, :]
        if self.valid is not None:
            keys = self.valid[:, None, :] | torch.eye(self.length, dtype=torch.bool, device=self.valid.device)
            seen = keys if seen is None else seen & keys
        return seen

    @property
    def kinds(self) -> tuple[Grid, ...]:
        """Return the distinct grids, in order of appearance."""
        return tuple(dict.fromkeys(self.grids))

    def pick(self, values: Sequence[Tensor]) -> Tensor:
        """Look up a value for the cell of each patch, or the nearest cell.

        Args:
            values: for each of `kinds`, a value for each of its cells, `(cells, ...)`.

        Returns:
            `(1 or B, N, ...)`.
        """
        kinds = self.kinds
        return self._look_up(values, [kinds.index(grid) for grid in self.grids])

    def pick_each(self, values: Sequence[Tensor]) -> Tensor:
        """Look up a value for the cell of each patch as `pick` does, with values for each of `grids`."""
        return self._look_up(values, list(range(len(values))))

    def _look_up(self, values: Sequence[Tensor], which: list[int]) -> Tensor:
        """Return the value of each patch's cell; `which` of the values is for each of `grids`."""
        cells = self.nearest().to(values[0].device)
        if len(values) == 1:
            return values[0][cells]
        starts = [0, *accumulate(len(each) for each in values)]
        first = torch.tensor([starts[each] for each in which], device=cells.device)
        return torch.cat(list(values))[first[self.image().to(cells.device)] + cells]

    # Ways to change them.

    def take(self, index: Tensor | Sequence[int]) -> Positions:
        """Return some of the patches, in any order.

        Args:
            index: `(M,)`, the same for all images, or `(B, M)`, numbers of patches in this sequence.

        Raises:
            LoopeError: for patches that are not in the sequence.
        """
        chosen = as_index(index, self.device)
        require(
            self.rows == 1 or len(chosen) in (1, self.rows),
            f"`index` must have 1 or {self.rows} rows, as the positions, got {len(chosen)}.",
        )
        if not torch.compiler.is_compiling():  # reads values
            require(
                chosen.numel() > 0 and int(chosen.min()) >= 0 and int(chosen.max()) < self.length,
                f"`index` must name patches from 0 to {self.length - 1}, got "
                + (f"{int(chosen.min())} to {int(chosen.max())}." if chosen.numel() else "none."),
            )
        return self.taken(chosen)

    def taken(self, index: Tensor) -> Positions:
        """Return the patches `index`, `(1 or B, M)` int64, as `take` does, without a check."""
        if self.whole is not None:
            return self._replace(cells=index)
        rows = max(self.rows, len(index))
        index = index.expand(rows, -1)

        def pick(values: Tensor | None) -> Tensor | None:
            if values is None:
                return None
            which = index if values.dim() == 2 else index[..., None].expand(-1, -1, 2)
            return values.expand(rows, *values.shape[1:]).gather(1, which)

        return Positions(self.grids, pick(self.cells), pick(self.moved), pick(self.valid), pick(self.sequence))

    def shift(self, rows: float = 0.0, columns: float = 0.0) -> Positions:
        """Move all patches by some cells, beyond the border of the grid if need be."""
        points, step = self.coordinates, as_numbers("rows, columns", rows, columns)
        return self._moved(points + points.new_tensor(step))

    def scale(self, factor: float | Sequence[float]) -> Positions:
        """Stretch coordinates from the image's top left corner, by one factor or (rows, columns).

        The centre of the first cell is half a cell from the corner, so it moves too.
        """
        factors = as_numbers("factor", *(factor if isinstance(factor, list | tuple) else (factor, factor)))
        require(
            len(factors) == 2 and min(factors) > 0,
            f"`factor` must be a positive number, or one for rows and one for columns, got {shown(factor)}.",
        )
        points = self.coordinates
        return self._moved((points + 0.5) * points.new_tensor(factors) - 0.5)

    def onto(self, grid: GridLike) -> Positions:
        """Lay each image out on another grid: the same places of the image, in cells of `grid`.

        For encoders that were trained on one grid and shall not see coordinates beyond it.
        """
        new = as_grid(grid)
        if all(each == new for each in self.grids):
            return self
        exact = torch.float32 if self.device is not None and self.device.type == "mps" else torch.float64
        points, sizes = self.plane(exact)
        moved = (points + 0.5) * (points.new_tensor(new) / sizes) - 0.5
        grids = (new,) if self.sequence is None else (new,) * len(self.grids)
        return Positions(grids, None, moved.to(self.coordinates.dtype), self.valid, self.sequence)

    def jitter(self, generator: torch.Generator | None = None, *, amount: float = 0.5, images: int = 1) -> Positions:
        """Move each patch at random, by up to `amount` cells in each direction.

        Args:
            generator: source of the random numbers; by default torch's.
            amount: the largest distance along an axis, in cells.
            images: the number of rows, if each image shall have its own draw.
        """
        require(min(as_numbers("amount", amount)) >= 0, f"`amount` must not be negative, got {shown(amount)}.")
        points = self.coordinates
        rows = max(as_size(images, "images"), len(points))
        require(
            len(points) in (1, rows),
            f"`images` must be {len(points)}, as these positions have that many rows, got {images}.",
        )
        device = points.device if generator is None else generator.device
        draw = torch.rand(rows, *points.shape[1:], dtype=points.dtype, device=device, generator=generator)
        return self._moved(points + (2 * draw.to(points.device) - 1) * amount)

    def to(self, device: torch.device | str) -> Positions:
        """Return the positions with their tensors on a device."""
        return Positions(self.grids, *(None if each is None else each.to(device) for each in self[1:]))

    def _moved(self, points: Tensor) -> Positions:
        return self._replace(cells=None, moved=points)

    def image(self) -> Tensor:
        """Return the index into `grids` of each patch, `(1 or B, N or 1)`."""
        if self.sequence is not None:
            return self.sequence
        return torch.arange(len(self.grids), device=self.device)[:, None]


PositionsLike: TypeAlias = Positions | GridLike


def as_positions(positions: PositionsLike) -> Positions:
    """Return positions as they are, and a grid as the positions of all its cells."""
    return positions if isinstance(positions, Positions) else Positions((as_grid(positions),))


# Named tuples are arguments of exported programs as they are, but only registered ones can be saved with a program.
for _kind in (Grid, Positions):
    _register_namedtuple(_kind, serialized_type_name=f"loope.{_kind.__name__}")
