"""Tiny models of every family, real classes from their libraries with random weights."""

from collections.abc import Callable

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
from loope.models import SETR, Segmenter

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


def eva(**options) -> nn.Module:
    return timm.models.Eva(**TIMM, use_rot_pos_emb=True, **options)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "ViT": vit,
    "ViT, no class token": lambda: vit(class_token=False, global_pool="avg"),
    "ViT, registers": lambda: vit(reg_tokens=4),
    "ViT, no_embed_class": lambda: vit(no_embed_class=True, reg_tokens=1),
    "ViT, dynamic size": lambda: vit(dynamic_img_size=True),
    "ViT, qk norm": lambda: vit(qk_norm=True),
    "DeiT": lambda: timm.create_model("deit_tiny_patch16_224", **TIMM),
    "DeiT distilled": lambda: timm.create_model("deit_tiny_distilled_patch16_224", **TIMM),
    "CaiT": lambda: timm.create_model("cait_xxs24_224", **TIMM),
    "CrossViT": lambda: timm.create_model("crossvit_9_240", **CROSS),
    "EVA": lambda: eva(qkv_fused=False),
    "EVA, mixed rotary": lambda: eva(rope_type="mixed", use_abs_pos_emb=False),
    "BEiT": lambda: timm.models.Beit(**TIMM, use_abs_pos_emb=False, use_rel_pos_bias=True),
    "BEiT, shared bias": lambda: timm.models.Beit(**TIMM, use_shared_rel_pos_bias=True),
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
