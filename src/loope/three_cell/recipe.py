"""The settings that determine the cells of a Three-Cell dataset."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from loope.core.errors import LoopeError, one_of
from loope.core.grid import Grid, GridLike, as_grid
from loope.three_cell.paper import sample_paper
from loope.three_cell.sampling import require_triples, sample_exact
from loope.three_cell.splits import SPLITS, derive, part_of, read_fractions, split_size

SAMPLERS: dict[str, Callable[..., Tensor]] = {"exact": sample_exact, "paper": sample_paper}


@dataclass(frozen=True)
class Recipe:
    """The arguments of `ThreeCell` that determine the cells; see there."""

    grid: Grid
    seed: int
    split: str | None
    sampler: str
    fractions: tuple[float, ...]
    share_configurations: bool = False

    @classmethod
    def read(
        cls,
        grid: GridLike,
        seed: Any,
        split: str | None,
        sampler: str,
        fractions: Sequence[float],
        share_configurations: bool = False,
    ) -> Recipe:
        """Check the arguments.

        Raises:
            LoopeError: for a grid without valid triples, an invalid seed, split or sampler, or fractions that do not
                add up to 1.
        """
        size = as_grid(grid)
        require_triples(size)
        if split is not None:
            one_of("split", split, SPLITS)
        one_of("sampler", sampler, SAMPLERS)
        return cls(size, _read_seed(seed), split, sampler, read_fractions(fractions), bool(share_configurations))

    def count(self, size: int) -> int:
        """Return the number of samples of the split, given that of all splits."""
        return size if self.split is None else split_size(size, self.split, self.fractions)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `(count, 3, 2)` int64 cells."""
        keep = None
        if self.split is not None and not self.share_configurations:
            keep = part_of(self.split, self.seed, self.grid, self.fractions)
        return SAMPLERS[self.sampler](self.grid, count, generator, keep)

    def generator(self, *purpose: object) -> torch.Generator:
        """Return a random generator for one purpose of this seed and split."""
        return torch.Generator().manual_seed(derive(self.seed, self.split, *purpose))


def _read_seed(seed: Any) -> int:
    try:
        value = operator.index(seed)
    except TypeError:
        value = -1
    if value < 0 or isinstance(seed, bool):
        raise LoopeError(f"`seed` must be a whole number from 0 up, got {seed!r}; use seed=0.")
    return value
