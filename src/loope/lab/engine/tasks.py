"""What a batch means: the loss of a step and the scores of an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy

from loope.core.grid import as_size

Scores: TypeAlias = Metric | MetricCollection


class Task(Protocol):
    """What the engine asks of a task."""

    headline: str
    """The metric by which the best checkpoint is chosen; higher is better."""

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the batch, a scalar to be minimised."""
        ...

    def metrics(self) -> Scores:
        """A fresh metric or collection, which the engine updates with `model(inputs)` in float32 and the targets.

        What it computes is a dictionary with an entry `headline`, or one number, which then has that name.
        """
        ...


class Classification:
    """One class an image: cross entropy, and top-1 accuracy; top-5 too from ten classes up.

    Targets are `(B,)` int classes or, after mixup, `(B, num_classes)` float shares.

    Args:
        num_classes: how many classes there are.
        label_smoothing: share of a target's weight that is spread over all classes.

    Examples:
        >>> import torch
        >>> task = Classification(3)
        >>> task.loss(torch.nn.Identity(), torch.zeros(2, 3), torch.tensor([0, 2]))  # log 3
        tensor(1.0986)
    """

    headline = "top1"

    def __init__(self, num_classes: int, label_smoothing: float = 0.0):
        self.num_classes = as_size(num_classes, "num_classes", least=2)
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross entropy, in float32 whatever the model computes in."""
        return F.cross_entropy(model(inputs).float(), targets, label_smoothing=self.label_smoothing)

    def metrics(self) -> Scores:
        """Share of images whose class is the first, or among the first five, of the model's."""
        tops = (1, 5) if self.num_classes >= 10 else (1,)
        return MetricCollection(
            {f"top{top}": MulticlassAccuracy(self.num_classes, top_k=top, average="micro") for top in tops}
        )


class Bits:
    """Several questions with yes or no: binary cross entropy over `(B, bits)` logits, against 0 or 1 each.

    Args:
        scores: makes the metric, say `loope.ThreeCellScore`.
        headline: which of its numbers picks the best epoch.
    """

    def __init__(self, scores: Callable[[], Scores], headline: str = "average"):
        self.metrics = scores
        self.headline = headline

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over bits and images, in float32 whatever the model computes in."""
        return F.binary_cross_entropy_with_logits(model(inputs).float(), targets.float())
