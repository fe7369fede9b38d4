"""Claim: a training step of the engine takes at most 1.05 times that of a bare PyTorch loop, on a tiny ViT.

A tiny model shows the overhead best: width 96, depth 4, a grid of 7x7 patches, batches of 64. The engine's step
includes seeding, schedule, checks of the loss, progress and trackers. Steps of the engine and of bare loops alternate
in one process; claims are judged by the median ratio of neighbouring steps. The row "bare again" compares the bare loop
with itself and shows the noise. Checkpoints are written between steps and timed separately.

    python benchmarks/engine.py [--steps 150]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))
import loope
from loope.lab.data.three_cell import ThreeCellSource
from loope.lab.engine import checkpoint
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.tasks import Bits
from loope.lab.engine.training import train

BATCH, BAR, WARM = 64, 1.05, 10
READY = list(ThreeCellSource(loope.ThreeCell(BATCH * 8, grid=7, cell=4), BATCH).batches(0))


def build() -> nn.Module:
    torch.manual_seed(0)
    size = {"img_size": 28, "patch_size": 4, "embed_dim": 96, "depth": 4, "num_heads": 4, "num_classes": 6}
    model = timm.create_model("vit_tiny_patch16_224", **size)
    loope.attach(model, "sincos2d")
    return model


def bare() -> Callable[[Tensor, Tensor], float]:
    """Return a plain training step, which returns its duration in seconds."""
    model = build().train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], weight_decay=0.0)

    def step(images: Tensor, bits: Tensor) -> float:
        start = time.perf_counter()
        loss = F.binary_cross_entropy_with_logits(model(images), bits.float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        return time.perf_counter() - start

    return step


class Turns:
    """A source that runs two bare steps before each batch for the engine, and records all three durations."""

    def __init__(self, steps: int):
        self.steps, self.samples = steps, steps * BATCH
        self.loops = bare(), bare()
        self.spent: list[tuple[float, float, float]] = []

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tensor, Tensor]]:
        for step in range(self.steps):
            batch = READY[step % len(READY)]
            one, other = self.loops if step % 2 else self.loops[::-1]
            first, second = one(*batch), other(*batch)
            given = time.perf_counter()
            yield batch  # the engine runs its step before asking for the next batch
            self.spent.append((first, second, time.perf_counter() - given))


class Ready:
    """A validation source of one batch."""

    steps, samples = 1, BATCH

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tensor, Tensor]]:
        yield READY[0]


def main() -> None:
    """Measure, print, and fail if the claim does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    turns, recipe = Turns(parser.parse_args().steps), Recipe(epochs=1, batch_size=BATCH)
    writes: list[float] = []
    write = checkpoint.Checkpoints.write

    def timed(*arguments) -> None:
        start = time.perf_counter()
        write(*arguments)
        writes.append(time.perf_counter() - start)

    checkpoint.Checkpoints.write = timed
    with tempfile.TemporaryDirectory() as folder:
        train(build(), Bits(loope.ThreeCellScore), turns, Ready(), recipe, folder, checkpoint_seconds=3600.0)
    kept = turns.spent[WARM:]
    print(f"bare loop   {1000 * statistics.median(first for first, _, _ in kept):.1f} ms a step")
    print(f"bare again  {statistics.median(second / first for first, second, _ in kept):.3f}")
    ratio = statistics.median(2 * engine / (first + second) for first, second, engine in kept)
    print(f"engine      {ratio:.3f}  (at most {BAR})")
    print(f"checkpoint  {1000 * statistics.median(writes):.1f} ms each, every 60 s and at each epoch's end")
    if ratio > BAR:
        raise SystemExit(f"the claim of {BAR} does not hold")


if __name__ == "__main__":
    main()
