"""Slow, obvious references: the pseudo-code of Supp. A.5 in plain loops, and our own additions.

Departures from the text, as the published numbers demand: average ranks where there are ties, no epsilon, and a bucket
or profile without an order (all values equal) counts 0 like one with fewer than two cells.
"""

import math
from itertools import product

import numpy as np


def cosines(embedding):
    """`(N, N)`, pair by pair."""
    vectors = [list(map(float, v)) for row in embedding for v in row]
    norms = [math.sqrt(math.fsum(x * x for x in v)) for v in vectors]
    return np.array(
        [
            [math.fsum(x * y for x, y in zip(a, b, strict=True)) / (m * n) for b, n in zip(vectors, norms, strict=True)]
            for a, m in zip(vectors, norms, strict=True)
        ]
    )


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


def seen_from(similarity, grid):
    """For each centre: its place, and a list of (row offset, column offset, similarity)."""
    height, width = grid
    cells = list(product(range(height), range(width)))
    for (x, y), row in zip(cells, similarity, strict=True):
        yield (x, y), [(i - x, j - y, float(e)) for (i, j), e in zip(cells, row, strict=True)]


def radial_bins(cells):
    bins = {}
    for di, dj, e in cells:
        bins.setdefault(round(math.sqrt(di * di + dj * dj)), []).append(e)
    return bins


def undirected(similarity, grid):
    """1 - rho for each centre."""
    out = np.zeros(grid)
    for (x, y), cells in seen_from(similarity, grid):
        bins = radial_bins(cells)
        radii = sorted(bins)
        out[x, y] = 1 - correlation(radii, [math.fsum(bins[r]) / len(bins[r]) for r in radii])
    return out


def directed(similarity, grid, directions):
    """1 - mean rho over directions for each centre."""
    delta = 2 * math.pi / directions
    out = np.zeros(grid)
    for (x, y), cells in seen_from(similarity, grid):
        rhos = []
        buckets = {}
        for di, dj, e in cells:
            buckets.setdefault(math.floor(math.atan2(dj, di) / delta) % directions, []).append((di * di + dj * dj, e))
        for k in range(directions):
            bucket = buckets.get(k, [])
            if len(bucket) < 2:
                rhos.append(0.0)
            else:
                bucket.sort()
                rhos.append(correlation([d for d, _ in bucket], [e for _, e in bucket]))
        out[x, y] = 1 - sum(rhos) / directions
    return out


def ring_spread(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((e - mean) ** 2 for e in values) / len(values))


def asymmetry(similarity, grid):
    """Mean std / mean over rings for each centre."""
    out = np.zeros(grid)
    for (x, y), cells in seen_from(similarity, grid):
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
