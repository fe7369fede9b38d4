"""The score of Three-Cell: accuracy on each of the four questions."""

from __future__ import annotations

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.metric import Metric
from loope.core.tensors import as_dense
from loope.three_cell.bits import BITS, by_task


def confusion(preds: Tensor, target: Tensor) -> Tensor:
    """Count what was answered to what, for each bit.

    Args:
        preds: `(B, 6)` logits (above 0 is yes; NaN is no answer, and wrong either way), or bits.
        target: `(B, 6)` bits.

    Returns:
        `(6, 2, 2)` int64: bit, label, answer.

    Raises:
        LoopeError: for other shapes.
    """
    preds, target = (as_dense(each, name, "(B, 6)") for each, name in ((preds, "preds"), (target, "target")))
    require(
        preds.dim() == 2 and preds.shape[1] == len(BITS) and preds.shape == target.shape,
        f"`preds` and `target` must both be (B, {len(BITS)}), got {tuple(preds.shape)} and {tuple(target.shape)}.",
    )
    truth = target != 0
    given = torch.where(preds.isnan(), ~truth, preds > 0)
    # One number for each pair of label and answer; comparing beats bincount, which is not deterministic on GPUs.
    pair = 2 * truth.long() + given.long()
    return torch.stack([(pair == which).sum(0) for which in range(4)], dim=1).view(len(BITS), 2, 2)


class ThreeCellScore(Metric):
    """Accuracy on the four sub-tasks of Three-Cell, their average, and the confusion of each bit.

    A sub-task's accuracy is the mean over its bits; the average is over the four sub-tasks, as in the paper's table.
    Counts are whole numbers that add up over batches and processes, however unevenly these share the samples.

    Examples:
        >>> score = ThreeCellScore()
        >>> score.update(torch.tensor([[2.0, -1.0, 3.0, -2.0, 0.5, 1.0]]), torch.tensor([[1, 0, 1, 0, 0, 1]]))
        >>> {name: value.item() for name, value in score.compute().items() if value.dim() == 0}
        {'distance': 1.0, 'orientation': 1.0, 'area': 0.5, 'vector_sum': 1.0, 'average': 0.875}
        >>> score.compute()["confusion"][4].tolist()  # bit 4: the label was 0, the answer 1
        [[0, 1], [0, 0]]
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("counts", torch.zeros(len(BITS), 2, 2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: `(B, 6)` logits, or bits, and `(B, 6)` bits."""
        self.counts += confusion(preds, target)

    def compute(self) -> dict[str, Tensor]:
        """The scores by name, and `confusion`, `(6, 2, 2)` int64: bit, label, answer. NaN before the first batch."""
        right = self.counts.diagonal(dim1=1, dim2=2).sum(1)
        return {**by_task(list(right / self.counts.sum((1, 2)))), "confusion": self.counts.clone()}
