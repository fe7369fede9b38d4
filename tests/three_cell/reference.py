"""Slow, obvious versions of Three-Cell: the paper's procedure line by line, and its questions in fractions."""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

Cell = tuple[int, int]


def representations(height: int, width: int) -> dict[int, list[Cell]]:
    """Supp. A.2, lines 4-13: D[n] holds the pairs (a, b) with a^2 + b^2 = n; L is the longest squared distance."""
    limit = (height - 1) ** 2 + (width - 1) ** 2  # 338 at 14x14, as published
    most = math.isqrt(limit)
    pairs: dict[int, list[Cell]] = {}
    for a in range(-most, most + 1):
        for b in range(-most, most + 1):
            n = a * a + b * b
            if n <= limit:
                pairs.setdefault(n, []).append((a, b))
    return {n: found for n, found in pairs.items() if len(found) > 1}


def generate(
    height: int,
    width: int,
    pairs: dict[int, list[Cell]],
    rng: random.Random,
    max_attempts: int = 100,
    collinear: bool = False,
) -> tuple[Cell, Cell, Cell]:
    """Supp. A.2, lines 14-44: one sample. `collinear=True` is the text; False adds the rule that it forgets."""
    keys = list(pairs)
    mode = rng.choice((1, 2, 3))

    def valid(red, green, blue):
        inside = all(0 <= r < height and 0 <= c < width for r, c in (green, blue))
        distinct = len({red, green, blue}) == 3
        return inside and distinct and (collinear or not on_a_line(red, green, blue))

    while True:
        red = rng.randrange(height), rng.randrange(width)
        if mode == 1:
            key = rng.choice(keys)
            for _ in range(max_attempts):
                (a1, b1), (a2, b2) = rng.sample(pairs[key], 2)
                green, blue = (red[0] + a1, red[1] + b1), (red[0] + a2, red[1] + b2)
                if valid(red, green, blue):
                    return red, green, blue
        else:
            for _ in range(max_attempts):
                k1, k2 = rng.choice(keys), rng.choice(keys)
                k_green, k_blue = (min(k1, k2), max(k1, k2)) if mode == 2 else (max(k1, k2), min(k1, k2))
                (ag, bg), (ab, bb) = rng.choice(pairs[k_green]), rng.choice(pairs[k_blue])
                green, blue = (red[0] + ag, red[1] + bg), (red[0] + ab, red[1] + bb)
                if valid(red, green, blue):
                    return red, green, blue


def on_a_line(red: Cell, green: Cell, blue: Cell) -> bool:
    return (green[0] - red[0]) * (blue[1] - red[1]) == (green[1] - red[1]) * (blue[0] - red[0])


def label(height: int, width: int, red: Cell, green: Cell, blue: Cell) -> list[int]:
    """The six bits, with points in the plane as fractions and each formula as it is written."""

    def point(cell):
        row, column = cell
        return Fraction(column), Fraction(height - 1 - row) + Fraction(1, 2)

    (rx, ry), (gx, gy), (bx, by) = point(red), point(green), point(blue)
    d_rg, d_rb = (gx - rx) ** 2 + (gy - ry) ** 2, (bx - rx) ** 2 + (by - ry) ** 2
    shoelace = (rx * gy - gx * ry) + (gx * by - bx * gy) + (bx * ry - rx * by)
    area_rg, area_rb = abs(rx - gx) * (ry + gy) / 2, abs(rx - bx) * (ry + by) / 2
    centre_x, centre_y = Fraction(width - 1, 2), Fraction(height, 2)
    sum_x, sum_y = rx + gx + bx - 3 * centre_x, ry + gy + by - 3 * centre_y
    outside = abs(sum_x) > Fraction(width, 2) or abs(sum_y) > Fraction(height, 2)
    return [int(bit) for bit in (d_rg > d_rb, d_rg < d_rb, shoelace > 0, area_rg > area_rb, area_rg < area_rb, outside)]


def triples(height: int, width: int) -> Iterator[tuple[Cell, Cell, Cell]]:
    """Every valid (red, green, blue)."""
    cells = list(product(range(height), range(width)))
    return (three for three in product(cells, repeat=3) if not on_a_line(*three))
