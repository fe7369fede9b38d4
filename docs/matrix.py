"""Try every encoder in every model and write docs/matrix.csv, which docs/build.py turns into a table of docs/attach.md.

`make matrix` runs it. The models are real classes from their libraries, tiny and with random weights; the tests use the
same ones.
"""

import csv
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
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
from loope.core.files import write_atomic
from loope.segmentation import SETR, Segmenter

FILE = Path(__file__).with_suffix(".csv")

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


def vit(**options: Any) -> nn.Module:
    """Create a tiny ViT."""
    return timm.create_model("vit_tiny_patch16_224", **{**TIMM, **options})


# The registered name and the arguments of each timm model: a checkpoint stores both.
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
    """Create a model in eval mode; random values, since parameters that start from zero would hide faults."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def images(model: nn.Module, size: tuple[int, int] | None = None, batch: int = 2, seed: int = 0) -> Tensor:
    """Draw random images, by default of the size that the model was created for."""
    size = size or ((48, 48) if type(model).__name__ == "CrossVit" else (SIDE, SIDE))
    return torch.randn(batch, 3, *size, generator=torch.Generator().manual_seed(seed))


def output(model: nn.Module, pixels: Tensor) -> Tensor:
    """Return the logits, or the last hidden state of a model without a head."""
    out = model(pixels)
    return out if isinstance(out, Tensor) else out[0]


@torch.no_grad()
def predict(model: nn.Module, pixels: Tensor | None = None) -> Tensor:
    """Compute the output without gradients."""
    return output(model, images(model) if pixels is None else pixels)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Copy the model's state dict."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(model: nn.Module, state: dict[str, Tensor]) -> bool:
    """Whether the model's state dict has the same names, order and values."""
    now = model.state_dict()
    return list(now) == list(state) and all(torch.equal(now[name], state[name]) for name in state)


def check(model_name: str, encoder: str) -> str:
    """Attach and detach an encoder; return "yes", or what does not work."""
    model = make(model_name)
    before, state = predict(model), state_of(model)
    try:
        loope.attach(model, encoder)
    except loope.LoopeError as refusal:
        return str(refusal)
    attached = predict(model)
    if torch.allclose(attached, before):
        return "attaching changes nothing"
    if attached.shape != before.shape or not attached.isfinite().all():
        return "wrong output"
    if not torch.equal(predict(model), attached):
        return "not deterministic"
    loope.detach(model)
    if not torch.equal(predict(model), before) or not same_state(model, state):
        return "detach does not restore"
    return "yes"


def main() -> None:
    """Check every pair and write the results."""
    encoders = loope.list_encoders()
    writer = csv.writer(text := io.StringIO(), lineterminator="\n")
    writer.writerow(["model", *encoders])
    for model in MODELS:
        writer.writerow([model, *(check(model, encoder) for encoder in encoders)])
    write_atomic(FILE, text.getvalue())
    print(f"Written: {FILE}")


if __name__ == "__main__":
    main()
