"""Claim about boundary F1 at Cityscapes' 1024x2048, with 19 classes and the default tolerance of 17 pixels.

Counting border pixels that are close to others is at least 10 times faster than with SciPy's distance transforms, and
gives the same counts.
"""

import math

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch.nn import functional as F

from loope.segmentation.boundaries import boundary, boundary_counts
from loope.segmentation.labels import VOID
from loope.segmentation.metric import TOLERANCE
from timing import interleaved

SIZE, CLASSES = (1024, 2048), 19


def scenes() -> tuple[torch.Tensor, torch.Tensor]:
    """Make a target with large and small regions and void at its edge, and a prediction with errors along borders."""
    random = torch.Generator().manual_seed(0)
    smooth = [
        F.interpolate(torch.randn(1, CLASSES, rows, 2 * rows, generator=random), SIZE, mode="bicubic")
        for rows in (8, 16, 32)
    ]
    truth = (2 * smooth[0] + smooth[1]).argmax(1)
    truth[:, -80:] = VOID
    return (2 * smooth[0] + smooth[1] + 0.3 * smooth[2]).argmax(1), truth


def by_distance(pred: torch.Tensor, target: torch.Tensor, tolerance: float) -> np.ndarray:
    """Compute the same counts from the distance to the nearest border pixel of each class."""
    pred = pred.masked_fill(target == VOID, VOID)
    kinds = [labels[0].numpy() for labels in (pred, target)]
    borders = [boundary(labels.to(torch.uint8))[0].numpy() for labels in (pred, target)]
    counts = np.zeros((CLASSES, 4), dtype=np.int64)
    for kind in range(CLASSES):
        ours, theirs = (border & (labels == kind) for border, labels in zip(borders, kinds, strict=True))
        counts[kind, 0], counts[kind, 2] = ours.sum(), theirs.sum()
        if ours.any() and theirs.any():
            counts[kind, 1] = (distance_transform_edt(~theirs)[ours] <= tolerance).sum()
            counts[kind, 3] = (distance_transform_edt(~ours)[theirs] <= tolerance).sum()
    return counts


def main() -> None:
    """Measure, print the ratio, and fail if the claim does not hold."""
    torch.set_num_threads(1)  # as SciPy uses
    pred, target = scenes()
    tolerance = TOLERANCE * math.hypot(*SIZE)
    if not np.array_equal(
        boundary_counts(pred, target, CLASSES, tolerance).numpy(), by_distance(pred, target, tolerance)
    ):
        raise SystemExit("the two sides of the comparison do not count the same")
    times = interleaved(
        5,
        distance=lambda: by_distance(pred, target, tolerance),
        pooling=lambda: boundary_counts(pred, target, CLASSES, tolerance),
    )
    for name, seconds in times.items():
        print(f"{name:10} {1000 * seconds:9.1f} ms an image of {SIZE[0]}x{SIZE[1]} with {CLASSES} classes")
    ratio = times["distance"] / times["pooling"]
    print(f"pooling is faster than distance transforms: {ratio:.0f}x (claim: 10x)")
    if ratio < 10:
        raise SystemExit("the claim does not hold")


if __name__ == "__main__":
    main()
