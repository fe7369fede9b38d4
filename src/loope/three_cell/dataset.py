"""Three-Cell: three coloured cells and four geometric questions that only positions can answer.

The definition is the paper's (Sec. "Three-Cell Experiment" and supplementary A.2); docs/three-cell.md documents what
the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from loope.core.errors import one_of
from loope.core.grid import GridLike, as_grid, as_size
from loope.three_cell.bits import by_task
from loope.three_cell.paper import sample_paper
from loope.three_cell.questions import answer
from loope.three_cell.rendering import render
from loope.three_cell.sampling import require_triples, sample_exact
from loope.three_cell.splits import FRACTIONS, SPLITS, derive, part_of, read_fractions, split_size

SAMPLERS: dict[str, Callable[..., Tensor]] = {"exact": sample_exact, "paper": sample_paper}
MOST_SEED = 2**63 - 1


class ThreeCell(Dataset[tuple[Tensor, Tensor]]):
    """A position probe: images with a red, a green and a blue cell, and six bits about where they are.

    Only coordinates are stored; images are rendered on access. Equal arguments give equal data.

    Args:
        size: number of samples of all splits together.
        grid: side length or (height, width) of the grid of cells.
        cell: side of a cell in pixels, the model's patch size.
        seed: seed of the samples and of the partition into splits.
        split: "train", "val", "test", or None for all `size` samples.
        sampler: "exact" (each distance case one third, uniform within it) or "paper" (the published procedure).
        fractions: shares of train, val and test.
        share_configurations: let splits share configurations; by default they are disjoint.

    Attributes:
        cells: `(n, 3, 2)` int64, row and column of red, green, blue.
        labels: `(n, 6)` int64, 0 or 1; `loope.three_cell.bits.BITS` names the bits.

    The arguments are attributes too.

    Examples:
        >>> data = ThreeCell(size=100, grid=(7, 9), cell=4)
        >>> image, label = data[0]
        >>> image.shape, label.tolist()
        (torch.Size([3, 28, 36]), [0, 0, 1, 0, 1, 1])

    Raises:
        LoopeError: for a grid without valid triples, an invalid size, cell, seed, split or sampler, or fractions that
            do not add up to 1.
    """

    def __init__(
        self,
        size: int = 10_000,
        grid: GridLike = 14,
        cell: int = 16,
        seed: int = 0,
        split: str | None = None,
        *,
        sampler: str = "exact",
        fractions: Sequence[float] = FRACTIONS,
        share_configurations: bool = False,
    ):
        self.grid = as_grid(grid)
        require_triples(self.grid)
        if split is not None:
            one_of("split", split, SPLITS)
        one_of("sampler", sampler, SAMPLERS)
        self.size = as_size(size, "size")
        self.cell = as_size(cell, "cell")
        self.seed = as_size(seed, "seed", least=0, most=MOST_SEED)
        self.split = split
        self.sampler = sampler
        self.fractions = read_fractions(fractions)
        self.share_configurations = bool(share_configurations)
        self.cells = self._draw()
        self.labels = answer(self.cells, self.grid)

    def _draw(self) -> Tensor:
        """Draw the cells of the split, `(n, 3, 2)` int64."""
        count, keep = self.size, None
        if self.split is not None:
            count = split_size(self.size, self.split, self.fractions)
            if not self.share_configurations:
                keep = part_of(self.split, self.seed, self.grid, self.fractions)
        generator = torch.Generator().manual_seed(derive(self.seed, self.split, "samples"))
        return SAMPLERS[self.sampler](self.grid, count, generator, keep)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the image, `(3, h * cell, w * cell)` float32 in 0..1, and its label, `(6,)` int64."""
        return self.render(self.cells[index][None])[0], self.labels[index]

    def render(self, cells: Tensor, device: Any = None) -> Tensor:
        """Render `(B, 3, 2)` cells as `(B, 3, h * cell, w * cell)` float32 images in 0..1, on `device` if given."""
        return render(cells, self.grid, self.cell, device)

    def majority_rates(self) -> dict[str, float]:
        """Return the accuracy of the best constant answer for each sub-task, and their average.

        A model without positions gives the same answer for every image, so it cannot exceed these rates.

        Examples:
            >>> {task: round(rate, 3) for task, rate in ThreeCell(seed=0).majority_rates().items()}
            {'distance': 0.667, 'orientation': 0.502, 'area': 0.526, 'vector_sum': 0.574, 'average': 0.567}
        """
        ones = self.labels.sum(0)
        majority = torch.maximum(ones, len(self) - ones)
        return by_task([count / len(self) for count in majority.tolist()])

    def __repr__(self) -> str:
        return (
            f"ThreeCell({len(self):,} samples, grid={self.grid}, cell={self.cell}, seed={self.seed}, "
            f"split={self.split!r}, sampler={self.sampler!r})"
        )
