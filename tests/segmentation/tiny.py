"""Tiny segmentation models with random values in every parameter."""

import timm
import torch
from torch import Tensor, nn

from loope.segmentation import SETR, Segmenter

SIDE, PATCH, CLASSES = 32, 8, 5
ARGS = {"patch_size": PATCH, "embed_dim": 48, "depth": 4, "num_heads": 3}
DECODERS = [(SETR, "naive"), (SETR, "pup"), (SETR, "mla"), (Segmenter, "linear"), (Segmenter, "mask")]


def vit(size=SIDE, **options) -> nn.Module:
    return timm.create_model("vit_tiny_patch16_224", img_size=size, **{**ARGS, **options})


def make(cls, decoder: str, backbone: nn.Module | None = None, classes=CLASSES, seed: int = 0, **options) -> nn.Module:
    torch.manual_seed(seed)
    model = cls(backbone or vit(), classes, decoder, **options)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model.eval()


def images(size=(SIDE, SIDE), batch: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(batch, 3, *size, generator=torch.Generator().manual_seed(seed))
