"""The Gilbert curve: Hilbert's curve for every rectangle (the paper's X_G, Supp. A.1).

The recursion of the paper's `generate2d` is run level by level: all rectangles of a level are split at once, on arrays.
A rectangle is a row `(x, y, ax, ay, bx, by)`: a corner, the major axis a and the orthogonal axis b.
"""

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.orders.base import register_order

# Below this many cells a rectangle is not split alone: equal axes give equal curves, so one is made and copied.
BLOCK_CELLS = 256


@register_order("gilbert")
def gilbert(grid: Grid) -> Tensor:
    """Hilbert's curve for any rectangle: by edge neighbours, but for one diagonal step that some odd sizes force."""
    height, width = grid
    whole = [0, 0, width, 0, 0, height] if width >= height else [0, 0, 0, height, width, 0]  # the paper's `gilbert2d`
    blocks = _split_until(torch.tensor([whole]), BLOCK_CELLS)
    corner = blocks[:, 1] * width + blocks[:, 0]
    cells = _lengths(blocks).prod(dim=0)
    start = cells.cumsum(0) - cells
    index = torch.empty(grid.size, dtype=torch.int64)
    axes, kind = torch.unique(blocks[:, 2:], dim=0, return_inverse=True)
    for number, axis in enumerate(axes):
        chosen = kind == number
        x, y = _walk(torch.cat((torch.zeros_like(axis[:2]), axis))[None]).unbind(1)
        index[corner[chosen, None] + (y * width + x)] = start[chosen, None] + torch.arange(len(x))
    return index.view(grid)


def _lengths(rectangles: Tensor) -> Tensor:
    """`(2, n)`: the paper's w = |ax + ay| and h = |bx + by|."""
    _, _, ax, ay, bx, by = rectangles.unbind(1)
    return torch.stack(((ax + ay).abs(), (bx + by).abs()))


def _split_until(rectangles: Tensor, cells: int) -> Tensor:
    """Split until no rectangle has more than `cells` cells, unless it is a line; the order along the curve is kept."""
    while True:
        w, h = _lengths(rectangles)
        open_ = (w * h > cells) & (w > 1) & (h > 1)
        if not open_.any():
            return rectangles
        rectangles = _split(rectangles, open_)


def _split(rectangles: Tensor, open_: Tensor) -> Tensor:
    """One level of the paper's `generate2d`: two parts for long rectangles, three for others, one where not open."""
    x, y, ax, ay, bx, by = rectangles.unbind(1)
    w, h = _lengths(rectangles)
    dax, day, dbx, dby = ax.sign(), ay.sign(), bx.sign(), by.sign()
    ax2, ay2, bx2, by2 = (axis // 2 for axis in (ax, ay, bx, by))  # rounds down, also below zero
    long = 2 * w > 3 * h
    # Prefer even steps.
    odd_a = (long & ((ax2 + ay2) % 2 == 1) & (w > 2)).long()
    odd_b = (~long & ((bx2 + by2) % 2 == 1) & (h > 2)).long()
    ax2, ay2, bx2, by2 = ax2 + odd_a * dax, ay2 + odd_a * day, bx2 + odd_b * dbx, by2 + odd_b * dby

    two = ((x, y, ax2, ay2, bx, by), (x + ax2, y + ay2, ax - ax2, ay - ay2, bx, by))
    three = (
        (x, y, bx2, by2, ax2, ay2),
        (x + bx2, y + by2, ax, ay, bx - bx2, by - by2),
        (x + ax - dax + bx2 - dbx, y + ay - day + by2 - dby, -bx2, -by2, ax2 - ax, ay2 - ay),
    )
    parts = torch.stack([torch.stack(part, dim=1) for part in three], dim=1)  # (n, 3, 6)
    for number, part in enumerate(two):
        parts[:, number] = torch.where(long[:, None], torch.stack(part, dim=1), parts[:, number])
    parts[:, 0] = torch.where(open_[:, None], parts[:, 0], rectangles)
    keep = torch.stack((torch.ones_like(open_), open_, open_ & ~long), dim=1)
    return parts[keep]


def _walk(rectangle: Tensor) -> Tensor:
    """`(n, 2)`: the cells of one small rectangle in order, down to lines of cells."""
    lines = _split_until(rectangle, 0)
    w, h = _lengths(lines)
    x, y, ax, ay, bx, by = lines.unbind(1)
    count = torch.maximum(w, h)
    along = torch.where(h == 1, torch.stack((ax, ay)), torch.stack((bx, by))).sign()
    step = torch.arange(int(count.sum())) - (count.cumsum(0) - count).repeat_interleave(count)
    return torch.stack((x, y), 1).repeat_interleave(count, 0) + step[:, None] * along.T.repeat_interleave(count, 0)
