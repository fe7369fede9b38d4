"""The Gilbert curve: Hilbert's curve for every rectangle (the paper's X_G, Supp. A.1).

The recursion of the paper's `generate2d` is run level by level: all rectangles of a level are split at once, on arrays.
A rectangle is a row `(x, y, ax, ay, bx, by)`: a corner, the major axis a and the orthogonal axis b.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loope.core.grid import Grid
from loope.orders.base import Cells, as_index, register_order

# Below this many cells a rectangle is not split alone: equal axes give equal curves, so one is made and copied.
BLOCK_CELLS = 256


@register_order("gilbert")
def gilbert(grid: Grid) -> Tensor:
    """Hilbert's curve for any rectangle: by edge neighbours, but for one diagonal step that some odd sizes force."""
    height, width = grid
    whole = [0, 0, width, 0, 0, height] if width >= height else [0, 0, 0, height, width, 0]  # the paper's `gilbert2d`
    blocks = _split_until(np.array([whole]), BLOCK_CELLS)
    corner = blocks[:, 1] * width + blocks[:, 0]
    cells = _lengths(blocks).prod(axis=0)
    start = cells.cumsum() - cells
    index = np.empty(grid.size, dtype=np.int64)
    axes, kind = np.unique(blocks[:, 2:], axis=0, return_inverse=True)
    kind = kind.ravel()  # NumPy 2.0 gives it a second dimension
    for number, axis in enumerate(axes):
        x, y = _walk(np.concatenate(([0, 0], axis))[None]).T
        chosen = kind == number
        index[corner[chosen, None] + (y * width + x)] = start[chosen, None] + np.arange(len(x))
    return as_index(index.reshape(grid))


def _lengths(rectangles: Cells) -> Cells:
    """`(2, n)`: the paper's w = |ax + ay| and h = |bx + by|."""
    _, _, ax, ay, bx, by = rectangles.T
    lengths: Cells = np.abs(np.stack((ax + ay, bx + by)))
    return lengths


def _split_until(rectangles: Cells, cells: int) -> Cells:
    """Split until no rectangle has more than `cells` cells, unless it is a line; the order along the curve is kept."""
    while True:
        w, h = _lengths(rectangles)
        open_ = (w * h > cells) & (w > 1) & (h > 1)
        if not open_.any():
            return rectangles
        rectangles = _split(rectangles, open_)


def _split(rectangles: Cells, open_: NDArray[np.bool_]) -> Cells:
    """One level of the paper's `generate2d`: two parts for long rectangles, three for others, one where not open."""
    x, y, ax, ay, bx, by = rectangles.T
    w, h = _lengths(rectangles)
    dax, day, dbx, dby = (np.sign(axis) for axis in (ax, ay, bx, by))
    ax2, ay2, bx2, by2 = (axis // 2 for axis in (ax, ay, bx, by))  # rounds down, also below zero
    long = 2 * w > 3 * h
    # Prefer even steps.
    odd_a = long & ((ax2 + ay2) % 2 == 1) & (w > 2)
    odd_b = ~long & ((bx2 + by2) % 2 == 1) & (h > 2)
    ax2, ay2, bx2, by2 = ax2 + odd_a * dax, ay2 + odd_a * day, bx2 + odd_b * dbx, by2 + odd_b * dby

    two = ((x, y, ax2, ay2, bx, by), (x + ax2, y + ay2, ax - ax2, ay - ay2, bx, by))
    three = (
        (x, y, bx2, by2, ax2, ay2),
        (x + bx2, y + by2, ax, ay, bx - bx2, by - by2),
        (x + ax - dax + bx2 - dbx, y + ay - day + by2 - dby, -bx2, -by2, ax2 - ax, ay2 - ay),
    )
    parts = np.stack([np.stack(part, axis=1) for part in three], axis=1)  # (n, 3, 6)
    for number, part in enumerate(two):
        parts[:, number] = np.where(long[:, None], np.stack(part, axis=1), parts[:, number])
    parts[:, 0] = np.where(open_[:, None], parts[:, 0], rectangles)
    keep = np.stack((np.ones_like(open_), open_, open_ & ~long), axis=1)
    kept: Cells = parts[keep]
    return kept


def _walk(rectangle: Cells) -> Cells:
    """`(n, 2)`: the cells of one small rectangle in order, down to lines of cells."""
    lines = _split_until(rectangle, 0)
    w, h = _lengths(lines)
    x, y, ax, ay, bx, by = lines.T
    count = np.maximum(w, h)
    along = np.sign(np.where(h == 1, np.stack((ax, ay)), np.stack((bx, by))))
    step = np.arange(count.sum()) - (count.cumsum() - count).repeat(count)
    start: Cells = np.stack((x, y), axis=1).repeat(count, axis=0)
    offset: Cells = step[:, None] * along.T.repeat(count, axis=0)
    return start + offset
