"""Slow, obvious references: the pseudo-code of Supp. A.5 in plain loops, and our own additions.

Departures from the text, as the published numbers demand: average ranks where there are ties, no epsilon, and a bucket
or profile without an order (all values equal) counts 0 like one with fewer than two cells.
"""

import math
from itertools import product

import numpy as np


def cosine_rows(embedding):
    """For each centre (x, y), the cosines A(i, j) of all cells, as the first lines of each algorithm have it."""
    height, width, _ = embedding.shape
    vectors = [np.asarray(embedding[i, j], dtype=np.float64) for i in range(height) for j in range(width)]
    for centre in vectors:
        norm = math.sqrt(centre @ centre)
        yield [float(centre @ vector) / (norm * math.sqrt(vector @ vector)) for vector in vectors]


def cosines(embedding):
    """`(N, N)`."""
    return np.array(list(cosine_rows(embedding)))


def ranks(values):
    """From 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out, start = [0.0] * len(values), 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for place in order[start:stop]:
            out[place] = (start + 1 + stop) / 2
        start = stop
    return out


def correlation(xs, ys):
    """Spearman with average ranks; 0 where one side is constant."""
    middle = (len(xs) + 1) / 2
    a, b = ([rank - middle for rank in ranks(values)] for values in (xs, ys))
    spreads = sum(x * x for x in a) * sum(y * y for y in b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(spreads) if spreads else 0.0


def seen_from(rows, grid):
    """For each centre: its place, and a list of (row offset, column offset, similarity)."""
    height, width = grid
    cells = list(product(range(height), range(width)))
    for (x, y), row in zip(cells, rows, strict=True):
        yield (x, y), [(i - x, j - y, float(e)) for (i, j), e in zip(cells, row, strict=True)]


def radial_bins(cells):
    """For each radius, the similarities of the cells at that rounded distance."""
    radius = [round(math.sqrt(di * di + dj * dj)) for di, dj, _ in cells]
    return {r: [e for (*_, e), own in zip(cells, radius, strict=True) if own == r] for r in sorted(set(radius))}


def undirected(rows, grid):
    """1 - rho for each centre."""
    out = np.zeros(grid)
    for (x, y), cells in seen_from(rows, grid):
        bins = radial_bins(cells)
        out[x, y] = 1 - correlation(list(bins), [math.fsum(values) / len(values) for values in bins.values()])
    return out


def directed(rows, grid, directions):
    """1 - mean rho over directions for each centre."""
    delta = 2 * math.pi / directions
    out = np.zeros(grid)
    for (x, y), cells in seen_from(rows, grid):
        bucket = [math.floor(math.atan2(dj, di) / delta) % directions for di, dj, _ in cells]
        rhos = []
        for k in range(directions):
            inside = [(di * di + dj * dj, e) for (di, dj, e), own in zip(cells, bucket, strict=True) if own == k]
            if len(inside) < 2:
                rhos.append(0.0)
            else:
                inside.sort()
                rhos.append(correlation([d for d, _ in inside], [e for _, e in inside]))
        out[x, y] = 1 - sum(rhos) / directions
    return out


def ring_spread(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((e - mean) ** 2 for e in values) / len(values))


def asymmetry(rows, grid):
    """Mean std / mean over rings for each centre."""
    out = np.zeros(grid)
    for (x, y), cells in seen_from(rows, grid):
        spreads = [ring_spread(values) for values in radial_bins(cells).values()]
        out[x, y] = sum(std / mean if std else 0.0 for mean, std in spreads) / len(spreads)
    return out


def bounded_asymmetry(similarity, grid):
    """Mean std over rings, over the range of the centre's similarities."""
    out = np.zeros(grid)
    for (x, y), cells in seen_from(similarity, grid):
        stds = [ring_spread(values)[1] for values in radial_bins(cells).values()]
        extent = max(e for *_, e in cells) - min(e for *_, e in cells)
        out[x, y] = sum(stds) / len(stds) / extent if extent else 0.0
    return out


def smallest_mean(similarity, grid):
    rings = [ring_spread(v) for _, cells in seen_from(similarity, grid) for v in radial_bins(cells).values()]
    return min((abs(mean) for mean, std in rings if std), default=math.inf) / np.abs(similarity).max()


def ceiling(grid, directions):
    """M_D of a similarity that falls with distance alone."""
    cells = list(product(range(grid[0]), range(grid[1])))
    nearness = [[-((i - x) ** 2 + (j - y) ** 2) for i, j in cells] for x, y in cells]
    return directed(nearness, grid, directions).mean()


def translation_consistency(similarity, grid):
    """The share of the variance of E over all pairs of different cells that the offset explains."""
    groups = {}
    for _, cells in seen_from(similarity, grid):
        for di, dj, e in cells:
            if (di, dj) != (0, 0):
                groups.setdefault((di, dj), []).append(e)
    values = [e for group in groups.values() for e in group]
    overall = math.fsum(values) / len(values)
    between = math.fsum(len(g) * (math.fsum(g) / len(g) - overall) ** 2 for g in groups.values())
    total = math.fsum((e - overall) ** 2 for e in values)
    return between / total if total else 1.0


def nearness_correlation(similarity, grid):
    """Spearman of similarity and minus the distance over all pairs of different cells."""
    pairs = [
        (-(di * di + dj * dj), e)
        for _, cells in seen_from(similarity, grid)
        for di, dj, e in cells
        if (di, dj) != (0, 0)
    ]
    return correlation(*zip(*pairs, strict=True))
