"""Three-Cell: three coloured cells and four geometric questions that only positions can answer.

The definition is the paper's (Sec. "Three-Cell Experiment" and supplementary A.2); docs/three-cell.md documents what
the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from loope.core.grid import GridLike, as_size
from loope.three_cell.bits import by_task
from loope.three_cell.questions import answer
from loope.three_cell.recipe import Recipe
from loope.three_cell.rendering import render
from loope.three_cell.splits import FRACTIONS


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
        grid: the grid of cells.
        cell: side of a cell in pixels.
        size: number of samples of all splits together.
        recipe: the arguments that determine the cells.

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
        self.recipe = Recipe.read(grid, seed, split, sampler, fractions, share_configurations)
        self.grid = self.recipe.grid
        self.size = as_size(size, "size")
        self.cell = as_size(cell, "cell")
        self.cells = self.recipe.draw(self.recipe.count(self.size), self.recipe.generator("samples"))
        self.labels = answer(self.cells, self.grid)

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
        recipe = self.recipe
        return (
            f"ThreeCell({len(self):,} samples, grid={self.grid}, cell={self.cell}, seed={recipe.seed}, "
            f"split={recipe.split!r}, sampler={recipe.sampler!r})"
        )
