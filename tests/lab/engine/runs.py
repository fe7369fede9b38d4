"""Small training runs: data as a function of (epoch, step), and models with dropout, batch norm and bad losses."""

import os
from collections.abc import Iterator

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import Metric

import loope
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.tasks import Bits

GRID, CELL = 4, 4


class Cells:
    """Three-Cell as a source, shuffled differently in each epoch."""

    def __init__(self, data: loope.ThreeCell, batch: int, shuffle: bool):
        self.data, self.batch, self.shuffle = data, batch, shuffle
        self.samples = len(data)
        self.steps = len(data) // batch if shuffle else -(-len(data) // batch)

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.arange(self.samples)
        if self.shuffle:
            order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(100 + epoch))
        for step in range(start, self.steps):
            yield self.draw(order[step * self.batch : (step + 1) * self.batch].tensor_split(share[1])[share[0]])

    def draw(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        images = self.data.render(self.data.cells[chosen]) if len(chosen) else torch.empty(0)
        return images, self.data.labels[chosen]


def sources(batch: int = 8, train: int = 48, valid: int = 17) -> tuple[Cells, Cells]:
    """Create sources of six steps per epoch; the last validation batch has one sample."""
    return (
        Cells(loope.ThreeCell(train, GRID, CELL, seed=1), batch, shuffle=True),
        Cells(loope.ThreeCell(valid, GRID, CELL, seed=2), batch, shuffle=False),
    )


def vit(seed: int = 0, **options) -> nn.Module:
    """Create a timm ViT with LOOPE that uses dropout, drop path and batch norm (in LOOPE's generator)."""
    torch.manual_seed(seed)
    random = {"proj_drop_rate": 0.1, "attn_drop_rate": 0.1, "drop_path_rate": 0.2}
    size = {"img_size": GRID * CELL, "patch_size": CELL, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 6}
    model = timm.create_model("vit_tiny_patch16_224", **{**size, **random, **options})
    loope.attach(model, "loope")
    return model


def plain_vit() -> nn.Module:
    """Create a ViT without batch norm, dropout and drop path, so that it does not matter how a batch is split.

    Without a bias of the keys, too: attention does not see it, so its gradient is rounding, which Adam makes large.
    """
    model = vit(proj_drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, qkv_bias=False)
    loope.detach(model)
    loope.attach(model, "sincos2d")
    return model


class Likelihood(Metric):
    """Minus the mean loss: changes with any weight."""

    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("samples", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, bits: Tensor) -> None:
        self.total -= F.binary_cross_entropy_with_logits(logits.double(), bits.double(), reduction="sum")
        self.samples += len(bits)

    def compute(self) -> dict[str, Tensor]:
        return {"likelihood": self.total / self.samples / 6, "samples": self.samples.clone()}


def task() -> Bits:
    return Bits(Likelihood, "likelihood")


def recipe(**options) -> Recipe:
    return Recipe(**{"epochs": 3, "batch_size": 8, "lr": 3e-3, "min_lr": 1e-4, "warmup": 0.5, "clip": 1.0, **options})


class Lost(nn.Module):
    """A model that returns NaN from its nth training batch on, in processes of a given rank."""

    def __init__(self, model: nn.Module, after: int, rank: str = "0"):
        super().__init__()
        self.model, self.left, self.rank = model, after, rank

    def forward(self, images: Tensor) -> Tensor:
        self.left -= self.training and os.environ.get("RANK", "0") == self.rank
        return self.model(images) * (1 if self.left > 0 else float("nan"))


def lost_on_second() -> nn.Module:
    return Lost(plain_vit(), after=4, rank="1")
