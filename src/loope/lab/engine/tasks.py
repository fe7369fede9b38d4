"""Tasks: the loss of a training step and the metrics of an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy

from loope.core.grid import as_size

Scores: TypeAlias = Metric | MetricCollection


class Task(Protocol):
    """Interface of a task."""

    headline: str
    """Metric that selects the best checkpoint; higher is better."""

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over the batch, a scalar."""
        ...

    def metrics(self) -> Scores:
        """Create a metric or collection, which the engine updates with `model(inputs)` in float32 and the targets.

        It must compute a dictionary that contains `headline`, or a single number, which gets that name.
        """
        ...


@runtime_checkable
class Scheduled(Protocol):
    """A task that changes in the course of a run."""

    def before_step(self, done: int, total: int) -> None:
        """Prepare for an optimizer step; `done` of `total` steps are behind, also after a resume."""
        ...


class Classification:
    """Image classification: cross entropy, top-1 accuracy, and top-5 accuracy from ten classes up.

    Targets are `(B,)` int classes or, after mixup, `(B, num_classes)` float probabilities.

    Args:
        num_classes: number of classes.
        label_smoothing: target weight spread over all classes.

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
        """Return the cross entropy, computed in float32."""
        return F.cross_entropy(model(inputs).float(), targets, label_smoothing=self.label_smoothing)

    def metrics(self) -> Scores:
        """Create the top-1 and top-5 accuracies."""
        tops = (1, 5) if self.num_classes >= 10 else (1,)
        return MetricCollection(
            {f"top{top}": MulticlassAccuracy(self.num_classes, top_k=top, average="micro") for top in tops}
        )


class Bits:
    """Several binary questions: binary cross entropy over `(B, bits)` logits.

    Args:
        scores: creates the metric, for example `loope.ThreeCellScore`.
        headline: the score that selects the best epoch.
    """

    def __init__(self, scores: Callable[[], Scores], headline: str = "average"):
        self.metrics = scores
        self.headline = headline

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean over bits and images, computed in float32."""
        return F.binary_cross_entropy_with_logits(model(inputs).float(), targets.float())
