"""Segmentation metrics: pixel accuracy, mIoU, mDice, MCC and boundary F1."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.core.grid import as_positive, as_size
from loope.core.metric import Metric
from loope.core.tensors import as_dense
from loope.segmentation.boundaries import boundary_counts
from loope.segmentation.labels import VOID

TOLERANCE = 0.0075  # of the image's diagonal (Csurka et al., 2013)


def scores_from_confusion(confusion: Tensor) -> dict[str, Tensor]:
    """Compute pixel accuracy, mean IoU, mean Dice and MCC (Gorodkin, 2004) from a confusion matrix.

    Classes that are neither present nor predicted are excluded from the means. All scores are NaN without pixels; MCC
    is 0 if truth or prediction has only one class.

    Args:
        confusion: `(classes, classes)` int64: true class, predicted class.

    Returns:
        `accuracy`, `miou`, `mdice`, `mcc`: `()` float64; `iou`: `(classes,)` float64 with NaN for absent classes.
    """
    # In float64 and with shares: products of a whole dataset's counts exceed the range of float32.
    counts = confusion.double()
    right, true, given, all_ = counts.diagonal(), counts.sum(1), counts.sum(0), counts.sum()
    iou = right / (true + given - right)
    dice = 2 * right / (true + given)
    shared = (right.sum() / all_) - (true / all_ * (given / all_)).sum()
    spread = [1 - (each / all_).square().sum() for each in (true, given)]
    product = (spread[0] * spread[1]).sqrt()
    mcc = torch.where(product == 0, 0.0, shared / product)
    return {"accuracy": right.sum() / all_, "miou": iou.nanmean(), "mdice": dice.nanmean(), "mcc": mcc, "iou": iou}


def boundary_f1(counts: Tensor) -> Tensor:
    """Compute the F1 score of each class's borders, averaged over classes.

    Args:
        counts: `(classes, 4)` from `boundary_counts`.

    Returns:
        `()` float64; classes without any border, true or predicted, are excluded.
    """
    predicted, hit, true, found = counts.double().unbind(1)
    # Without borders on one side there are no close pixels on the other: 0, not 0 / 0.
    precision, recall = hit / predicted.clamp(min=1), found / true.clamp(min=1)
    f1 = 2 * precision * recall / (precision + recall).clamp(min=torch.finfo(torch.float64).tiny)
    return f1.masked_fill(predicted + true == 0, math.nan).nanmean()


class SegmentationScore(Metric):
    """Pixel accuracy, mIoU, mDice, MCC and boundary F1.

    A border pixel has a neighbour (of four) of another class; it is correct if the other segmentation has a border
    pixel of the same class within the tolerance, in Euclidean distance. Void is ignored. Counts are summed over batches
    and processes, so scores are those of the dataset, not means over images.

    Args:
        classes: number of classes.
        tolerance: border tolerance in pixels; by default 0.75 % of the image's diagonal.

    Examples:
        >>> score = SegmentationScore(classes=2)
        >>> score.update(torch.tensor([[[0, 0, 1, 1]]]), torch.tensor([[[0, 1, 1, 255]]]))
        >>> {name: round(value.item(), 3) for name, value in score.compute().items() if value.dim() == 0}
        {'accuracy': 0.667, 'miou': 0.5, 'mdice': 0.667, 'mcc': 0.5, 'boundary_f1': 0.0}

    Raises:
        LoopeError: for an invalid number of classes or tolerance.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    confusion: Tensor
    borders: Tensor

    def __init__(self, classes: int, tolerance: float | None = None) -> None:
        super().__init__()
        self.classes = as_size(classes, "classes", most=VOID)
        self.tolerance = None if tolerance is None else as_positive(tolerance, "tolerance")
        self.add_state("confusion", torch.zeros(classes, classes, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("borders", torch.zeros(classes, 4, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch.

        Args:
            preds: `(B, classes, H, W)` scores, or `(B, H, W)` classes.
            target: `(B, H, W)` classes, or 255 for void.

        Raises:
            LoopeError: for other shapes, another number of classes, or invalid values.
        """
        from torchmetrics.functional.classification import multiclass_confusion_matrix

        self._check(preds, target)
        given = preds.argmax(dim=1) if preds.dim() == 4 else preds
        self.confusion += multiclass_confusion_matrix(
            given, target, self.classes, ignore_index=VOID, validate_args=False
        )
        tolerance = TOLERANCE * math.hypot(*target.shape[1:]) if self.tolerance is None else self.tolerance
        self.borders += boundary_counts(given, target, self.classes, tolerance)

    def compute(self) -> dict[str, Tensor]:
        """Return `accuracy`, `miou`, `mdice`, `mcc`, `boundary_f1`, and `iou`, `(classes,)`: float64."""
        return {**scores_from_confusion(self.confusion), "boundary_f1": boundary_f1(self.borders)}

    def _check(self, preds: Tensor, target: Tensor) -> None:
        as_dense(preds, "preds", "(B, classes, H, W) or (B, H, W)")
        as_dense(target, "target", "(B, H, W)")
        require(
            target.dim() == 3
            and preds.dim() in (3, 4)
            and preds.shape in (target.shape, (len(target), preds.shape[1], *target.shape[1:])),
            f"`preds` must be (B, classes, H, W) or (B, H, W) for a `target` of (B, H, W), got {tuple(preds.shape)} "
            f"and {tuple(target.shape)}.",
        )
        require(
            preds.dim() == 3 or preds.shape[1] == self.classes,
            f"The scores are of {preds.shape[1]} classes, the data of {self.classes}; use a model for {self.classes}.",
        )
        for name, labels in (("target", target), *([("preds", preds)] if preds.dim() == 3 else [])):
            strange = labels[(labels < 0) | (labels >= self.classes) & ~((labels == VOID) & (name == "target"))]
            if len(strange):
                raise LoopeError(
                    f"`{name}` has the values {sorted(set(strange.tolist()))[:5]}, but there are classes 0 to "
                    f"{self.classes - 1}" + (f", and {VOID} for void." if name == "target" else ".")
                )
