"""Compare PyTorch's fused attention, timm's default, with plain attention for training in bfloat16 on this CPU.

In bfloat16 the fused kernel can be slower than in float32; timm disables it if TIMM_FUSED_ATTN=0. No claim is made for
CPUs in general: docs/scaling.md has the numbers of one. Training steps alternate in one process, on one thread.

    python benchmarks/cpu_attention.py [--repeats 7]
"""

import argparse
from collections.abc import Callable

import timm
import torch
from timm.layers import set_fused_attn
from torch import nn

from timing import interleaved

# The models of the laptop presets of Three-Cell and Pets: options, image size, batch size.
MODELS = {
    "width 96, 7x7 patches": ({"img_size": 28, "patch_size": 4, "embed_dim": 96, "depth": 4, "num_heads": 4}, 28, 64),
    "width 96, 14x14 patches": ({"img_size": 56, "patch_size": 4, "embed_dim": 96, "depth": 4, "num_heads": 4}, 56, 64),
    "ViT-Tiny, 14x14 patches": ({}, 224, 16),
}


def build(fused: bool, options: dict[str, int]) -> nn.Module:
    set_fused_attn(fused)  # read when a module is created
    model = timm.create_model("vit_tiny_patch16_224", **options)
    set_fused_attn(True)
    return model.train()


def step(model: nn.Module, images: torch.Tensor, half: bool) -> Callable[[], None]:
    def once() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = model(images).float().square().mean()
        loss.backward()
        model.zero_grad()

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    for name, (options, side, batch) in MODELS.items():
        images = torch.randn(batch, 3, side, side)
        fused, plain = build(True, options), build(False, options)
        calls = {
            "float32, fused": step(fused, images, half=False),
            "bfloat16, fused": step(fused, images, half=True),
            "bfloat16, plain": step(plain, images, half=True),
        }
        interleaved(1, **calls)  # the first step of each is slow
        spent = interleaved(repeats, **calls)
        for kind, seconds in spent.items():
            print(f"{name:24} {kind:16} {batch / seconds:6.0f} images/s")
        print(f"{name:24} plain is faster  {spent['bfloat16, fused'] / spent['bfloat16, plain']:6.2f} x", flush=True)


if __name__ == "__main__":
    main()
