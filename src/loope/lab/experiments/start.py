"""Start amplitudes of encoders and attention: part of a recipe, so that no encoder starts too weak to be noticed."""

from __future__ import annotations

import torch
from torch import nn

from loope.encoders import PositionalEncoder
from loope.encoders.irpe import ImageRelativePosition
from loope.positions import Positions

RMS = 0.5**0.5  # of sinusoids
# Parameters in which the vectors of an additive encoder are linear: scaled together, they scale the vectors.
VECTORS = {"learned": ("table",), "factorized": ("rows", "columns"), "fourier": ("mlp.2.weight", "mlp.2.bias")}
# iRPE's tables start at zero. These deviations give its biases one of about 3, enough to prefer some of the 49 cells of
# a 7x7 grid at the start: in "bias" mode a table holds the biases, in the other they are products with queries.
IRPE_STD = {"bias": 3.0, "contextual": 1.5}


@torch.no_grad()
def equalize(model: nn.Module) -> None:
    """Give an attached encoder's vectors the root mean square of sinusoids, and iRPE's zero tables random values.

    Encoders without such parameters are unchanged: sinusoids have that size already, and rotations have none.
    """
    for encoder in model.modules():
        if not isinstance(encoder, PositionalEncoder):
            continue
        vectors = [encoder.get_parameter(name) for name in VECTORS.get(encoder.name, ())]
        if vectors:
            size = encoder._static(Positions((encoder.grid,))).double().square().mean().sqrt()
            for parameter in vectors:
                parameter.mul_((RMS / size).to(parameter))
        if isinstance(encoder, ImageRelativePosition):
            nn.init.normal_(encoder.tables, std=IRPE_STD[encoder.mode])


@torch.no_grad()
def amplify_attention(model: nn.Module, gain: float) -> None:
    """Multiply the weights of queries and keys in each of a timm model's blocks, so that scores differ more."""
    for block in model.blocks:  # type: ignore[union-attr]
        rows = 2 * block.attn.qkv.out_features // 3  # of queries and keys; those of values follow
        block.attn.qkv.weight[:rows] *= gain
