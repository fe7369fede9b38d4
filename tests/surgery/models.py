"""Tiny models of every family, real classes from their libraries with random weights."""

from collections.abc import Callable
from functools import partial
from typing import Any

import timm
import torch
from torch import Tensor, nn
from transformers import (
    DeiTConfig,
    DeiTForImageClassification,
    DeiTModel,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

import loope
from loope.segmentation import SETR, Segmenter

SIDE, PATCH = 32, 8
TIMM = {"img_size": SIDE, "patch_size": PATCH, "embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 5}
CROSS = {
    "img_size": 48, "img_scale": (1.0, 32 / 48), "patch_size": (12, 16), "embed_dim": (24, 48), "num_heads": (2, 3),
    "depth": ((1, 2, 0), (1, 1, 0)), "num_classes": 5,
}  # fmt: skip
HF = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "image_size": SIDE,
    "patch_size": PATCH, "num_labels": 5,
}  # fmt: skip


def vit(**options) -> nn.Module:
    return timm.create_model("vit_tiny_patch16_224", **{**TIMM, **options})


# Each timm model as its registered name and what else it is created with: what a checkpoint must say of it.
SHARED_BIAS = {"use_rel_pos_bias": False, "use_shared_rel_pos_bias": True, "use_abs_pos_emb": True}
NAFLEX = {**{key: value for key, value in TIMM.items() if key != "img_size"}, "pos_embed_grid_size": (4, 4)}
TIMM_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "ViT": ("vit_tiny_patch16_224", TIMM),
    "ViT, no class token": ("vit_tiny_patch16_224", {**TIMM, "class_token": False, "global_pool": "avg"}),
    "ViT, registers": ("vit_tiny_patch16_224", {**TIMM, "reg_tokens": 4}),
    "ViT, no_embed_class": ("vit_tiny_patch16_224", {**TIMM, "no_embed_class": True, "reg_tokens": 1}),
    "ViT, dynamic size": ("vit_tiny_patch16_224", {**TIMM, "dynamic_img_size": True}),
    "ViT, qk norm": ("vit_tiny_patch16_224", {**TIMM, "qk_norm": True}),
    "DeiT": ("deit_tiny_patch16_224", TIMM),
    "DeiT distilled": ("deit_tiny_distilled_patch16_224", TIMM),
    "CaiT": ("cait_xxs24_224", TIMM),
    "CrossViT": ("crossvit_9_240", CROSS),
    "EVA": ("eva02_base_patch14_224", TIMM),
    "EVA, mixed rotary": ("vit_small_patch16_rope_mixed_224", TIMM),
    "NaFlexViT": ("naflexvit_base_patch16_gap", {**NAFLEX, "reg_tokens": 2}),
    "NaFlexViT, rotary": ("naflexvit_base_patch16_map", {**NAFLEX, "pos_embed": "none", "rope_type": "axial"}),
    "BEiT": ("beit_base_patch16_224", TIMM),
    "BEiT, shared bias": ("beit_base_patch16_224", {**TIMM, **SHARED_BIAS}),
}
SEGMENTERS = ("SETR", "Segmenter")  # around a ViT
MODELS: dict[str, Callable[[], nn.Module]] = {
    **{name: partial(timm.create_model, made, **options) for name, (made, options) in TIMM_MODELS.items()},
    "SETR": lambda: SETR(vit(), 5, "mla"),
    "Segmenter": lambda: Segmenter(vit(), 5, "mask"),
    "HF ViT": lambda: ViTForImageClassification(ViTConfig(**HF)),
    "HF ViTModel": lambda: ViTModel(ViTConfig(**HF)),
    "HF DeiT": lambda: DeiTForImageClassification(DeiTConfig(**HF)),
    "HF DeiTModel": lambda: DeiTModel(DeiTConfig(**HF)),
}


def make(name: str, seed: int = 0) -> nn.Module:
    """A model in eval mode whose every parameter matters."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def make_attached(name: str, encoder, **options) -> nn.Module:
    model = make(name)
    loope.attach(model, encoder, **options)
    return model


def images(model: nn.Module, size: tuple[int, int] | None = None, batch: int = 2, seed: int = 0) -> Tensor:
    size = size or ((48, 48) if type(model).__name__ == "CrossVit" else (SIDE, SIDE))
    return torch.randn(batch, 3, *size, generator=torch.Generator().manual_seed(seed))


def output(model: nn.Module, pixels: Tensor) -> Tensor:
    """Logits, or the last hidden state of a model without a head."""
    out = model(pixels)
    return out if isinstance(out, Tensor) else out[0]


@torch.no_grad()
def predict(model: nn.Module, pixels: Tensor | None = None) -> Tensor:
    return output(model, images(model) if pixels is None else pixels)


def loss(model: nn.Module, pixels: Tensor) -> Tensor:
    """A number that every parameter has a part in: of a model without a head, its pooler's output decides."""
    out = model(pixels)
    out = out if isinstance(out, Tensor) else out.pooler_output if "pooler_output" in out else out[0]
    return out.square().mean()
