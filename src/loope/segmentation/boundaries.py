"""Class boundaries, and which of them are close to those of another segmentation.

Distances are Euclidean and exact. Borders are dilated by a disc instead of computing distances: a disc is a stack of
rows, so dilation is pooling along rows, then along columns; eight classes share the bits of a byte.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from loope.segmentation.labels import VOID

BITS = 8  # classes in a byte


def boundary(labels: Tensor) -> Tensor:
    """Find pixels with a neighbour (above, below, left or right) of another class.

    Borders with void and the image's edge do not count.

    Args:
        labels: `(B, H, W)` uint8 classes, 255 for void.

    Returns:
        `(B, H, W)` bool.
    """
    found = torch.zeros_like(labels, dtype=torch.bool)
    known = labels != VOID
    for axis in (-2, -1):
        count = labels.shape[axis] - 1
        meets = labels.narrow(axis, 0, count) != labels.narrow(axis, 1, count)
        meets &= known.narrow(axis, 0, count) & known.narrow(axis, 1, count)
        found.narrow(axis, 0, count).logical_or_(meets)
        found.narrow(axis, 1, count).logical_or_(meets)
    return found


def widen(bits: Tensor, reach: int) -> Tensor:
    """Combine the bits of each pixel with those of all pixels whose squared distance is at most `reach`.

    Args:
        bits: `(B, H, W)` uint8.
        reach: squared radius of the disc.

    Returns:
        `(B, H, W)` uint8.
    """
    row, out, half = bits.clone(), torch.zeros_like(bits), 0
    for step in range(math.isqrt(reach), 0, -1):  # rows of the disc, from the ends to the middle
        half = _widen_row(row, bits, half, math.isqrt(reach - step * step))
        _or_shifted(out, row, -2, step)
    _widen_row(row, bits, half, math.isqrt(reach))
    return out.bitwise_or_(row)


def boundary_counts(pred: Tensor, target: Tensor, classes: int, tolerance: float) -> Tensor:
    """Count the border pixels of each class, and those close to a border of the other segmentation.

    Args:
        pred: `(B, H, W)` classes.
        target: `(B, H, W)` classes, or 255 for void, which is ignored.
        classes: number of classes, up to 255.
        tolerance: largest distance in pixels that counts as close.

    Returns:
        `(classes, 4)` int64: predicted border pixels, those close to true ones, true ones, those close to predicted.
    """
    target = target.to(torch.uint8)
    pred = pred.to(torch.uint8).masked_fill(target == VOID, VOID)
    reach = math.floor(tolerance * tolerance)
    # Borders are thin, so continue with their indices only.
    places = [boundary(labels).flatten().nonzero()[:, 0] for labels in (pred, target)]
    kinds = [labels.flatten()[place].long() for labels, place in zip((pred, target), places, strict=True)]
    close = [torch.zeros_like(kind, dtype=torch.bool) for kind in kinds]
    for first in range(0, classes, BITS):
        chosen = [((kind >= first) & (kind < first + BITS)).nonzero()[:, 0] for kind in kinds]
        if not all(map(len, chosen)):
            continue  # one side has no borders of these classes
        for own, other in ((0, 1), (1, 0)):
            marks = torch.zeros_like(target)
            marks.view(-1)[places[other][chosen[other]]] = _bit(kinds[other][chosen[other]], first)
            near = widen(marks, reach).view(-1)[places[own][chosen[own]]]
            close[own][chosen[own]] = (near & _bit(kinds[own][chosen[own]], first)) != 0
    counted = (kinds[0], kinds[0][close[0]], kinds[1], kinds[1][close[1]])
    return torch.stack([torch.bincount(kind, minlength=classes) for kind in counted], dim=1)


def _bit(kind: Tensor, first: int) -> Tensor:
    return (1 << (kind - first)).to(torch.uint8)


def _widen_row(row: Tensor, bits: Tensor, half: int, wanted: int) -> int:
    """Widen `row`, which is `bits` dilated by `half` to both sides, to `wanted`."""
    for step in range(half + 1, wanted + 1):
        _or_shifted(row, bits, -1, step)
    return wanted


def _or_shifted(out: Tensor, bits: Tensor, axis: int, step: int) -> None:
    """Compute `out |= bits` shifted by `step` along an axis in both directions."""
    count = out.shape[axis] - step
    if count > 0:
        out.narrow(axis, step, count).bitwise_or_(bits.narrow(axis, 0, count))
        out.narrow(axis, 0, count).bitwise_or_(bits.narrow(axis, step, count))
