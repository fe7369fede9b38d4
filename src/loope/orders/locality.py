"""How well an order keeps neighbours together."""

from typing import NamedTuple

import torch
from torch import Tensor

from loope.core.grid import Grid
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
    below = (index[1:] - index[:-1]).abs().flatten()
    right = (index[:, 1:] - index[:, :-1]).abs().flatten()
    steps = torch.cat((below, right)).double()
    return Locality(
        neighbour_distance=steps.mean().item(),
        kept=(steps == 1).double().mean().item(),
        rank_correlation=_rank_correlation(index),
    )


def _rank_correlation(index: Tensor) -> float:
    count = index.numel()
    if count < 3:  # fewer than two pairs have no correlation
        return float("nan")
    if count <= EXACT_CELLS:
        first, second = torch.triu_indices(count, count, offset=1, device=index.device)
    else:
        generator = torch.Generator().manual_seed(0)
        first = torch.randint(count, (SAMPLED_PAIRS,), generator=generator, device=generator.device)
        # A shift of 1..N-1 draws a different second cell with equal chances.
        second = (first + torch.randint(1, count, first.shape, generator=generator, device=generator.device)) % count
        first, second = first.to(index.device), second.to(index.device)
    rows, columns = Grid(*index.shape).coordinates(device=index.device)
    # Squared distances rank as distances do, and stay whole numbers, so that ties are exact.
    on_grid = (rows[first] - rows[second]).square() + (columns[first] - columns[second]).square()
    on_curve = (index.flatten()[first] - index.flatten()[second]).abs()
    return spearman(on_grid, on_curve).item()
