"""Ridge regression in closed form."""

from typing import NamedTuple

import torch
from torch import Tensor

# Relative to the sum of the eigenvalues. Rows are to be met, not predicted, so it is as small as half precision allows:
# a smaller one gives weights in the hundreds that cancel each other, which bfloat16 rounds to noise.
RIDGE = 1e-7


class Regression(NamedTuple):
    """`inputs @ weight + bias`, and the share of the variance of the outputs that it explains, a scalar."""

    weight: Tensor
    bias: Tensor
    explained: Tensor


def ridge(inputs: Tensor, outputs: Tensor) -> Regression:
    """Regress `outputs` `(N, D)` on `inputs` `(N, F)`; differentiable, and meant for float64."""
    mean, target = inputs.mean(0), outputs.mean(0)
    centred, wanted = inputs - mean, outputs - target
    square = centred.T @ centred
    amount = RIDGE * square.detach().diagonal().sum()
    weight = torch.linalg.solve(square + amount * torch.eye(len(square)).to(square), centred.T @ wanted)
    left = (wanted - centred @ weight).square().sum()
    total = wanted.square().sum().clamp(min=torch.finfo(wanted.dtype).tiny)
    return Regression(weight, target - mean @ weight, 1 - left / total)
