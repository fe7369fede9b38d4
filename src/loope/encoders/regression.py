"""Ridge regression in closed form."""

import torch
from torch import Tensor

RIDGES = tuple(10.0**power for power in range(-8, 3))


def ridge(inputs: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, float]:
    """Regress `outputs` `(N, D)` on `inputs` `(N, F)` with the ridge that predicts left-out rows best.

    Returns:
        The matrix `(F, D)`, the bias `(D,)`, and the share of the variance explained.
    """
    mean, target = inputs.mean(0), outputs.mean(0)
    left, values, right = torch.linalg.svd(inputs - mean, full_matrices=False)
    centred = outputs - target
    total = centred.square().sum().clamp(min=torch.finfo(outputs.dtype).tiny)
    rotated = left.T @ centred
    best = None
    for amount in RIDGES:
        kept = values.square() / (values.square() + amount)
        residual = centred - left @ (kept[:, None] * rotated)
        # Leaving a row out divides its residual by 1 - its leverage; the bias counts for 1/N.
        leverage = (left.square() * kept).sum(1) + 1 / len(inputs)
        left_out = (residual / (1 - leverage).clamp(min=1e-6)[:, None]).square().sum()
        if best is None or left_out < best[0]:
            weight = right.T @ ((values / (values.square() + amount))[:, None] * rotated)
            best = left_out, weight, float(1 - residual.square().sum() / total)
    assert best is not None  # noqa: S101  (there are ridges)
    return best[1], target - mean @ best[1], best[2]
