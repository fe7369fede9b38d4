"""The tiny models of docs/matrix.py, and what tests do with them."""

from torch import Tensor, nn

import loope
from docs.matrix import (
    CROSS,
    HF,
    MODELS,
    NAFLEX,
    SEGMENTERS,
    TIMM,
    TIMM_MODELS,
    images,
    make,
    output,
    predict,
    vit,
)

__all__ = [
    "CROSS",
    "HF",
    "MODELS",
    "NAFLEX",
    "SEGMENTERS",
    "TIMM",
    "TIMM_MODELS",
    "images",
    "loss",
    "make",
    "make_attached",
    "output",
    "predict",
    "vit",
]


def make_attached(name: str, encoder, **options) -> nn.Module:
    model = make(name)
    loope.attach(model, encoder, **options)
    return model


def loss(model: nn.Module, pixels: Tensor) -> Tensor:
    """Compute a scalar that depends on every parameter: for models without a head, from the pooler's output."""
    out = model(pixels)
    out = out if isinstance(out, Tensor) else out.pooler_output if "pooler_output" in out else out[0]
    return out.square().mean()
