"""Slow, obvious versions of the curves: the paper's pseudo-code and textbook recursions."""

from collections.abc import Iterator


def sgn(x: int) -> int:
    return (x > 0) - (x < 0)


def gilbert2d(width: int, height: int) -> Iterator[tuple[int, int]]:
    """Supp. A.1, line by line: yields (x, y)."""
    if width >= height:
        yield from generate2d(0, 0, width, 0, 0, height)
    else:
        yield from generate2d(0, 0, 0, height, width, 0)


def generate2d(x, y, ax, ay, bx, by) -> Iterator[tuple[int, int]]:
    w = abs(ax + ay)
    h = abs(bx + by)
    dax, day = sgn(ax), sgn(ay)
    dbx, dby = sgn(bx), sgn(by)
    if h == 1:
        for _ in range(w):
            yield x, y
            x, y = x + dax, y + day
        return
    if w == 1:
        for _ in range(h):
            yield x, y
            x, y = x + dbx, y + dby
        return
    ax2, ay2 = ax // 2, ay // 2
    bx2, by2 = bx // 2, by // 2
    w2 = abs(ax2 + ay2)
    h2 = abs(bx2 + by2)
    if 2 * w > 3 * h:
        if w2 % 2 == 1 and w > 2:
            ax2, ay2 = ax2 + dax, ay2 + day
        yield from generate2d(x, y, ax2, ay2, bx, by)
        yield from generate2d(x + ax2, y + ay2, ax - ax2, ay - ay2, bx, by)
    else:
        if h2 % 2 == 1 and h > 2:
            bx2, by2 = bx2 + dbx, by2 + dby
        yield from generate2d(x, y, bx2, by2, ax2, ay2)
        yield from generate2d(x + bx2, y + by2, ax, ay, bx - bx2, by - by2)
        yield from generate2d(
            x + (ax - dax) + (bx2 - dbx), y + (ay - day) + (by2 - dby), -bx2, -by2, -(ax - ax2), -(ay - ay2)
        )


def spiral(height: int, width: int) -> list[tuple[int, int]]:
    """Walk clockwise, turning right at a wall or a visited cell."""
    seen, path = set(), []
    row, col, step = 0, 0, (0, 1)
    for _ in range(height * width):
        path.append((row, col))
        seen.add((row, col))
        ahead = (row + step[0], col + step[1])
        if not (0 <= ahead[0] < height and 0 <= ahead[1] < width) or ahead in seen:
            step = (step[1], -step[0])
            ahead = (row + step[0], col + step[1])
        row, col = ahead
    return path


def zigzag(height: int, width: int) -> list[tuple[int, int]]:
    """JPEG's zigzag: up on even anti-diagonals, down on odd ones."""
    cells = [(row, col) for row in range(height) for col in range(width)]
    return sorted(cells, key=lambda cell: (sum(cell), cell[0] if sum(cell) % 2 else cell[1]))


def hilbert(order: int) -> list[tuple[int, int]]:
    """(row, column) path of a 2^order square from the top left to the top right corner, by four copies of itself."""
    if order == 0:
        return [(0, 0)]
    part, side = hilbert(order - 1), 2 ** (order - 1)
    first = [(c, r) for r, c in part]  # mirrored at the main diagonal
    last = [(side - 1 - c, side - 1 - r) for r, c in part]  # mirrored at the other one
    return (
        first
        + [(r + side, c) for r, c in part]
        + [(r + side, c + side) for r, c in part]
        + [(r, c + side) for r, c in last]
    )


def peano(order: int) -> list[tuple[int, int]]:
    """(row, column) path of a 3^order square from corner to opposite corner, by nine mirrored copies of itself."""
    if order == 0:
        return [(0, 0)]
    part, side = peano(order - 1), 3 ** (order - 1)
    path = []
    for col in range(3):
        for row in (0, 1, 2) if col % 2 == 0 else (2, 1, 0):
            for r, c in part:
                r = side - 1 - r if col % 2 else r
                c = side - 1 - c if row % 2 else c
                path.append((r + row * side, c + col * side))
    return path


def morton(side_bits: int) -> list[tuple[int, int]]:
    """(row, column) path of a 2^n square: recursion over quadrants in Z order."""
    if side_bits == 0:
        return [(0, 0)]
    part, side = morton(side_bits - 1), 2 ** (side_bits - 1)
    return [(r + dr, c + dc) for dr in (0, side) for dc in (0, side) for r, c in part]
