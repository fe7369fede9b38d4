"""How well an order keeps neighbours together."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loope.core.ranks import spearman

EXACT_CELLS = 1024  # above this, pairs of cells are sampled: there are too many to rank
SAMPLED_PAIRS = 1_000_000


class Locality(NamedTuple):
    """Scores of an order; NaN where a grid is too small to have them.

    Attributes:
        neighbour_distance: mean distance on the curve between cells that share an edge; 1 would be perfect.
        kept: share of those pairs that stay at distance 1.
        rank_correlation: Spearman's correlation between Euclidean distance on the grid and distance on the curve over
            all pairs of cells; 1 means that the curve ranks every pair as the grid does. Above 1,024 cells it is
            estimated from a million pairs drawn with a fixed seed.
    """

    neighbour_distance: float
    kept: float
    rank_correlation: float


def locality(index: Tensor) -> Locality:
    """Score an order given as the `(h, w)` position of each cell."""
    positions = index.detach().cpu().numpy()
    steps = np.concatenate([np.abs(np.diff(positions, axis=axis)).ravel() for axis in (0, 1)])
    none = steps.size == 0
    return Locality(
        neighbour_distance=math.nan if none else steps.mean().item(),
        kept=math.nan if none else (steps == 1).mean().item(),
        rank_correlation=_rank_correlation(positions),
    )


def _rank_correlation(positions: NDArray[np.int64]) -> float:
    count = positions.size
    if count < 3:  # fewer than two pairs have no correlation
        return math.nan
    if count <= EXACT_CELLS:
        first, second = np.triu_indices(count, k=1)
    else:
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(count, (SAMPLED_PAIRS,), generator=generator, device=generator.device)
        shift = torch.randint(1, count, drawn.shape, generator=generator, device=generator.device)
        first = drawn.numpy()
        second = (first + shift.numpy()) % count  # a shift of 1..N-1 draws a different second cell with equal chances
    rows, columns = np.divmod(np.arange(count), positions.shape[1])
    # Squared distances rank as distances do, and stay whole numbers, so that ties are exact.
    on_grid = (rows[first] - rows[second]) ** 2 + (columns[first] - columns[second]) ** 2
    on_curve = np.abs(positions.ravel()[first] - positions.ravel()[second])
    return spearman(torch.from_numpy(on_grid), torch.from_numpy(on_curve)).item()
