"""The components of PESI (Supp. A.5): from rows of similarity to one number per centre."""

from typing import NamedTuple

import torch
from torch import Tensor

from loope.core.ranks import average_ranks, round_off
from loope.core.serial import in_pieces, root
from loope.pesi_metric.geometry import Geometry, add_up


class Rings(NamedTuple):
    """Similarity on the rings around some centres; NaN beyond a centre's last ring.

    Attributes:
        mean: `(C, rings)` float64, mu of Eq. `mu`.
        std: `(C, rings)` float64, sigma: the population's standard deviation.
    """

    mean: Tensor
    std: Tensor


def rings(rows: Tensor, geometry: Geometry, centres: slice) -> Rings:
    """Mean and standard deviation of `(C, N)` float64 similarity on each ring."""
    ring, counts = geometry.ring(centres), geometry.ring_counts[centres]
    mean = add_up(rows, ring, geometry.rings) / counts  # 0 / 0 beyond the last ring
    # Two passes: a ring of equal values then has a spread of exactly (or nearly) zero.
    spread = add_up((rows - mean.gather(-1, ring)).square(), ring, geometry.rings) / counts
    return Rings(mean, root(spread))


def undirected(around: Rings) -> Tensor:
    """Return 1 - Spearman of a ring's radius and its mean similarity, `(C,)`."""
    present = ~around.mean.isnan()
    middle = (present.sum(-1, keepdim=True) + 1) / 2
    # Every ring up to the last has cells, so absent rings come last and get the highest ranks.
    mean = torch.where(present, round_off(around.mean), torch.inf)
    similarity = torch.where(present, average_ranks(mean) - middle, 0)
    radius = torch.where(present, torch.arange(1, mean.shape[-1] + 1, device=mean.device) - middle, 0)
    return 1 - _correlation((similarity * radius).sum(-1), similarity.square().sum(-1), radius.square().sum(-1))


def directed(order: Tensor, geometry: Geometry, centres: slice) -> Tensor:
    """Return 1 - the mean over directions of Spearman of distance and similarity, `(C,)`; fewer than 2 cells count 0.

    Args:
        order: `(C, N)` int64 from -2^41 to 2^41, in the order of similarity.
        geometry: geometry of the grid.
        centres: centres of the rows.
    """
    bucket = geometry.bucket(centres)
    # One sort ranks all buckets of a row: the key compares the bucket first, then the similarity.
    key = (bucket << 42) + order
    similarity = geometry.centred(average_ranks(key), bucket, centres)
    product = add_up(similarity * geometry.distance_ranks[centres], bucket, geometry.directions)
    spread = add_up(similarity.square(), bucket, geometry.directions)
    return 1 - _correlation(product, spread, geometry.distance_spread[centres]).mean(-1)


def asymmetry(around: Rings) -> Tensor:
    """Return the mean over rings of std / mean, `(C,)`; a ring without spread counts 0, whatever its mean."""
    return torch.where(around.std == 0, 0, around.std / around.mean).nanmean(-1)


def bounded_asymmetry(around: Rings, rows: Tensor) -> Tensor:
    """Return the mean over rings of std / (range of similarity to the centre), `(C,)`; 0 if all are equal."""
    extent = rows.amax(-1) - rows.amin(-1)
    return torch.where(extent > 0, around.std.nanmean(-1) / extent, 0)


def ceiling(geometry: Geometry) -> float:
    """Return the largest possible M_D: 1 plus the share of buckets that can have a correlation.

    These are the buckets with cells at two or more distances; each reaches -1 if similarity decreases with distance.
    """
    spread = geometry.distance_spread
    return 1 + sum(int((some > 0).sum()) for (some,) in in_pieces(spread)) / spread.numel()


def _correlation(product: Tensor, spread: Tensor, other: Tensor) -> Tensor:
    """Divide the product by the root of the spreads; 0 where one side is constant and the correlation is undefined."""
    defined = (spread > 0) & (other > 0)
    return torch.where(defined, product / root(torch.where(defined, spread * other, 1)), 0)
