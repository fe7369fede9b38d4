"""Trains the small model that ships with the explorer: LOOPE in a tiny ViT, on Three-Cell; half an hour on one core.

Whatever replaces it must be a file that `loope.save` wrote and stay below 500 kB: a timm ViT with loope attached, six
logits, images of Three-Cell on its grid. The page reads grid and patch size off the model.
"""

import argparse
import json
import time
from pathlib import Path

import timm
import torch
from torch.nn import functional as F

import loope
from loope.explorer.model import SHIPPED

GRID, CELL = 7, 8
# Width and MLP are what half precision and 500 kB leave room for.
SIZE = {"patch_size": CELL, "embed_dim": 64, "depth": 4, "num_heads": 4, "mlp_ratio": 3, "class_token": False}
SIZE["global_pool"] = "avg"
MOST = 500_000


def make() -> torch.nn.Module:
    """The model, untrained: a GELU in LOOPE's generator, whose map cannot die."""
    model = timm.create_model("vit_tiny_patch16_224", img_size=GRID * CELL, num_classes=6, **SIZE)
    loope.attach(model, "loope", activation="gelu")
    return model


def accuracy(model: torch.nn.Module) -> dict[str, float]:
    """On 5,000 configurations that are not among those trained on."""
    score = loope.ThreeCellScore()
    data = loope.ThreeCell(size=50_000, grid=GRID, cell=CELL, split="test")
    with torch.no_grad():
        for images, labels in data.batches(500):
            score.update(model(images), labels)
    return {name: round(value.item(), 4) for name, value in score.compute().items() if value.dim() == 0}


def train(steps: int, batch: int, rate: float) -> torch.nn.Module:
    """AdamW with one cycle, on an endless stream."""
    torch.manual_seed(0)
    model = make().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    start = time.time()
    batches = loope.ThreeCell.stream(grid=GRID, cell=CELL, split="train").batches(batch)
    for step, (images, labels) in zip(range(steps), batches, strict=False):
        loss = F.binary_cross_entropy_with_logits(model(images), labels.float())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        cycle.step()
        if step % 500 == 0:
            print(f"{step:6d} of {steps}: loss {loss.item():.3f}, {time.time() - start:.0f} s", flush=True)
    return model.eval()


def main() -> None:
    """Train, save in half precision, and say what was reached."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=9_000)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--rate", type=float, default=1.5e-3)
    options.add_argument("--out", type=Path, default=SHIPPED)
    given = options.parse_args()
    model = train(given.steps, given.batch, given.rate)
    path = loope.save(model.half(), given.out, model_args=SIZE)
    size = path.stat().st_size
    print(f"{path}: {size:,} bytes")
    print(json.dumps(accuracy(loope.load(path).float())))
    if size >= MOST:
        raise SystemExit(f"larger than {MOST:,} bytes")


if __name__ == "__main__":
    main()
