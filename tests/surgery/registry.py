"""Tiny models of the timm classes that are not in docs/matrix.py."""

from typing import Any

import timm
import torch
from torch import nn

from docs.matrix import TIMM

TOWER = {**TIMM, "mlp_ratio": 2.0}
SWIN = {
    "img_size": 32, "patch_size": 2, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 3), "window_size": 4,
    "num_classes": 5,
}  # fmt: skip
HIERA = {
    "img_size": 32, "embed_dim": 24, "num_heads": 2, "stages": (1, 2), "q_pool": 1, "mask_unit_size": (2, 2),
    "mask_unit_attn": (True, False), "num_classes": 5,
}  # fmt: skip
REGISTRY: dict[str, tuple[str, dict[str, Any]]] = {
    "RelPos": ("vit_relpos_base_patch16_clsgap_224", TIMM),
    "RelPos, table": ("vit_relpos_base_patch16_clsgap_224", {**TIMM, "rel_pos_type": "bias"}),
    "RelPos, shared": ("vit_srelpos_small_patch16_224", TIMM),
    "SAM": ("samvit_base_patch16", {**TIMM, "window_size": 3, "global_attn_indexes": (1,)}),
    "Parallel things": ("vit_small_patch16_18x2_224", TIMM),
    "Parallel scaling": ("vit_pwee_patch16_reg1_gap_256", TIMM),
    "Differential": ("vit_dlittle_patch16_reg1_gap_256", TIMM),
    "Differential, parallel": ("vit_dpwee_patch16_reg1_gap_256", TIMM),
    "Qwen3": ("qwen3_vit_88m", {**TOWER, "pos_embed_grid_size": 3}),
    "Qwen3, merged": ("qwen3_vit_88m_enc", TOWER),
    "DeepSeek": ("deepseek_vit_412m", TOWER),
    "Hiera": ("hiera_tiny_224", HIERA),
    "Hiera, windows": ("hiera_small_abswin_256", {**HIERA, "global_pos_size": (3, 3)}),
    "Swin": ("swin_tiny_patch4_window7_224", SWIN),
    "Swin v2": ("swinv2_tiny_window8_256", SWIN),
}
# Windows and merged neighbours depend on the place of a patch, whatever its encoding.
LOCAL = {"Hiera", "Hiera, windows", "SAM", "Qwen3, merged", "Swin", "Swin v2"}

REFUSED = {("Hiera", kind) for kind in ("rope_mixed", "irpe", "peg")}
REFUSED |= {("Hiera, windows", kind) for _, kind in REFUSED}
ONE_SIZE = {"Hiera", "Hiera, windows"}  # what cannot be resized


def make(name: str, seed: int = 0, **options: Any) -> nn.Module:
    """Create a model in eval mode; random values, since parameters that start from zero would hide faults."""
    architecture, args = REGISTRY[name]
    torch.manual_seed(seed)
    model = timm.create_model(architecture, **{**args, **options})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()
