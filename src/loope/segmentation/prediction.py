"""Segment images of any size with a sliding window, optionally at several scales and flipped."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from loope.core.errors import require
from loope.core.grid import as_positive
from loope.segmentation.backbone import SegmentationModel, enlarged

OVERLAP = 1 / 3  # of neighbouring windows: both papers use steps of two thirds (512 of 768, 341 of 512)


@torch.no_grad()
def predict(
    model: SegmentationModel,
    images: Tensor,
    *,
    overlap: float = OVERLAP,
    scales: Sequence[float] = (1.0,),
    flip: bool = False,
) -> Tensor:
    """Predict the class probabilities of each pixel with a sliding window of the model's size.

    Scores are averaged where windows overlap; probabilities are averaged over scales and flips.

    Args:
        model: SETR or Segmenter, in eval mode.
        images: `(B, channels, H, W)` of any size, normalized as in training.
        overlap: overlap of neighbouring windows as a share, 0 <= overlap < 1.
        scales: scale factors of the images.
        flip: also predict the horizontally flipped images.

    Returns:
        `(B, classes, H, W)` float, summing to 1 over classes.

    Examples:
        >>> import timm, loope
        >>> model = loope.segmentation.SETR(timm.create_model("vit_tiny_patch16_224", img_size=64), classes=3).eval()
        >>> predict(model, torch.randn(1, 3, 50, 150), scales=(0.5, 1.0), flip=True).shape
        torch.Size([1, 3, 50, 150])

    Raises:
        LoopeError: if the model is in training mode, or an option is out of range.
    """
    require(not model.training, "Call model.eval() first: in training the model normalises by the batch it sees.")
    require(0 <= overlap < 1, f"`overlap` must be from 0 up to, but not including, 1, got {overlap}.")
    require(len(scales) > 0, "`scales` must have at least one scale; use scales=(1.0,).")
    total = torch.zeros((), device=images.device)
    for scale in scales:
        factor = as_positive(scale, "scales")
        size = [max(1, round(side * factor)) for side in images.shape[-2:]]
        seen = enlarged(images, size) if factor != 1 else images
        for mirrored in (False, True) if flip else (False,):
            scores = slide(model, seen.flip(-1) if mirrored else seen, overlap)
            scores = scores.flip(-1) if mirrored else scores
            total = total + enlarged(scores, images.shape[-2:]).softmax(dim=1)
    return total / (len(scales) * (2 if flip else 1))


def slide(model: SegmentationModel, images: Tensor, overlap: float = OVERLAP) -> Tensor:
    """Return the mean scores over all windows of each pixel, `(B, classes, H, W)`; small images are zero-padded."""
    window, (height, width) = model.size, images.shape[-2:]
    images = F.pad(images, (0, max(0, window.width - width), 0, max(0, window.height - height)))
    total = images.new_zeros(len(images), len(model.labels), *images.shape[-2:])
    count = images.new_zeros(images.shape[-2:])
    for top in starts(images.shape[-2], window.height, overlap):
        for left in starts(images.shape[-1], window.width, overlap):
            place = (..., slice(top, top + window.height), slice(left, left + window.width))
            total[place] += model(images[place])
            count[place] += 1
    return (total / count)[..., :height, :width]


def starts(length: int, window: int, overlap: float) -> list[int]:
    """Return the window starts along a side, so that windows cover it and stay inside.

    Examples:
        >>> starts(20, 10, overlap=0.3), starts(21, 10, overlap=0.5), starts(10, 10, overlap=0.5)
        ([0, 7, 10], [0, 5, 10, 11], [0])
    """
    step = max(1, round(window * (1 - overlap)))
    return [*range(0, length - window, step), length - window]
