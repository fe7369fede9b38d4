"""The segmentation loss: cross-entropy over pixels, with auxiliary heads."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from loope.segmentation.labels import VOID

AUXILIARY_WEIGHT = 0.4  # of each auxiliary head, as in SETR


def segmentation_loss(scores: Tensor | tuple[Tensor, ...], target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Compute the mean cross-entropy over labelled pixels, plus 0.4 times that of each auxiliary head; 0 if all void.

    Args:
        scores: `(B, classes, H, W)`, or a tuple of them, as from a model with auxiliary heads in training.
        target: `(B, H, W)` int64 classes; 255 is ignored.
        label_smoothing: see `torch.nn.functional.cross_entropy`.

    Returns:
        `()` float.
    """
    own, *helped = scores if isinstance(scores, tuple) else (scores,)
    pixels = (target != VOID).sum().clamp(min=1)

    def mean(each: Tensor) -> Tensor:
        summed = F.cross_entropy(each, target, ignore_index=VOID, reduction="sum", label_smoothing=label_smoothing)
        return summed / pixels

    return mean(own) + AUXILIARY_WEIGHT * sum((mean(each) for each in helped), start=own.new_zeros(()))
