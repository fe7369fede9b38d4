"""Tables of docs/scaling.md: what a forward pass costs, and from it the GPU-hours of the paper's tables."""

from functools import cache
from typing import NamedTuple

import timm
import torch
from torch.utils.flop_counter import FlopCounterMode

SUSTAINED = 100e12  # FLOP/s of one GPU: an assumption
TRAINED_ON = 0.8  # of the images

# The paper's names, and timm's. The size of an image is 224 pixels where nothing else is said.
MODELS = {
    "ViT-Base": "vit_base_patch16_224",
    "ViT-Small": "vit_small_patch16_224",
    "DeiT-Base": "deit_base_patch16_224",
    "DeiT-Small": "deit_small_patch16_224",
    "CaiT": "cait_s24_224",
    "Cross-ViT": "crossvit_base_240",
    "ResNet-50": "resnet50",
    "Inception-V3": "inception_v3",
}
# Labelled images, the official splits together: the paper splits them anew.
IMAGES = {
    "Oxford-IIIT": 7_349,
    "CIFAR-100": 60_000,
    "ImageNet-1k": 1_281_167 + 50_000,
    "ImageNet-100": 126_689 + 5_000,
    "Three-Cell": 10_000,
    "Cityscapes": 2_975 + 500,
}
CLASSIFIED = ("Oxford-IIIT", "CIFAR-100", "ImageNet-1k")


class Runs(NamedTuple):
    """Runs that cost the same: they differ in their encoder. `again`: so many are in an earlier table too."""

    count: int
    model: str
    data: str
    size: int = 224
    epochs: int = 150
    again: int = 0

    @property
    def hours(self) -> float:
        """GPU-hours of each: forward and backward are three times the forward pass."""
        images = TRAINED_ON * IMAGES[self.data] * self.epochs
        return images * 3 * forward_flops(MODELS[self.model], self.size) / SUSTAINED / 3600


PAPER = {
    "table1": [
        *(Runs(5, model, data) for model in ("ViT-Base", "DeiT-Base", "DeiT-Small", "CaiT") for data in CLASSIFIED),
        *(Runs(5, "Cross-ViT", data, size=240) for data in CLASSIFIED),
    ],
    "table2": [Runs(7, "DeiT-Base", data, again=2) for data in CLASSIFIED],
    "table3": [Runs(2 * 7, "ViT-Base", "Cityscapes", size=768, epochs=100)],
    "table4": [
        Runs(9, "DeiT-Base", "Three-Cell"),
        Runs(1, "ResNet-50", "Three-Cell"),
        Runs(1, "Inception-V3", "Three-Cell"),
    ],
    "table6": [Runs(3 * 4, "ViT-Base", "Oxford-IIIT", again=3)],
    "table7": [
        *(Runs(2, model, "Oxford-IIIT", again=2) for model in ("ViT-Base", "DeiT-Base")),
        Runs(2, "ViT-Small", "Oxford-IIIT"),
        *(Runs(2, model, "Oxford-IIIT", size=384) for model in ("ViT-Base", "ViT-Small", "DeiT-Base")),
    ],
    "scratch": [
        Runs(5, "ViT-Base", "ImageNet-100", epochs=300),
        Runs(5, "Cross-ViT", "ImageNet-100", size=240, epochs=300),
    ],
    "inputs": [Runs(4, "DeiT-Base", "Three-Cell", again=2)],
}


@cache
def forward_flops(name: str, size: int) -> int:
    """Floating-point operations of one image's way through a timm model: two for each multiply-add."""
    options = {"img_size": size} if "patch16" in name else {}  # the others are used at their own size, or any
    with torch.device("meta"):
        model = timm.create_model(name, **options).eval().requires_grad_(False)
        image = torch.empty(1, 3, size, size)
    with FlopCounterMode(display=False) as counter:
        model(image)
    return counter.get_total_flops()


def models_table() -> str:
    """What a forward pass costs."""
    used = dict.fromkeys((runs.model, runs.size) for table in PAPER.values() for runs in table)
    lines = ["| model | in timm | image | GFLOP forward | images/s in training |", "|---|---|---:|---:|---:|"]
    for model, size in used:
        flops = forward_flops(MODELS[model], size)
        speed = SUSTAINED / (3 * flops)
        lines.append(f"| {model} | `{MODELS[model]}` | {size} | {flops / 1e9:.1f} | {speed:,.0f} |")
    return "\n".join(lines)


def hours_table() -> str:
    """GPU-hours of each table for one seed."""
    lines = ["| table | runs | GPU-hours | of which ImageNet-1k | longest run |", "|---|---:|---:|---:|---:|"]
    for name, table in PAPER.items():
        imagenet = [runs for runs in table if runs.data == "ImageNet-1k"]
        longest = max(table, key=lambda runs: runs.hours)
        lines.append(
            f"| `{name}` | {sum(runs.count for runs in table)} | {_hours(total(table))} | "
            f"{_hours(total(imagenet)) if imagenet else '-'} | "
            f"{_hours(longest.hours)}: {longest.model}, {longest.data} |"
        )
    once = [runs._replace(count=runs.count - runs.again) for table in PAPER.values() for runs in table]
    lines.append(f"| all, each run once | {sum(runs.count for runs in once)} | {_hours(total(once))} | | |")
    return "\n".join(lines)


def total(table: list[Runs]) -> float:
    """GPU-hours of some runs."""
    return sum(runs.count * runs.hours for runs in table)


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


TABLES = {("docs/scaling.md", "models"): models_table, ("docs/scaling.md", "gpu-hours"): hours_table}
