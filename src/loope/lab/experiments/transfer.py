"""The task of handing a model over to another encoding: agree with the original, on images without labels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from loope.lab.data.batches import Batch
from loope.lab.data.classification import ImageSource
from loope.surgery.own import first_output
from loope.surgery.transfer import HandOver


class SameAnswers(Metric):
    """Share of the images with the wanted answer.

    Args:
        wanted: `(n,)` int64, the answer for each image; targets are indices into it.
    """

    full_state_update = False
    higher_is_better = True
    wanted: Tensor
    same: Tensor
    count: Tensor

    def __init__(self, wanted: Tensor):
        super().__init__()
        self.register_buffer("wanted", wanted, persistent=False)
        self.add_state("same", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, output: Any, places: Tensor) -> None:
        """Count the same answers of a batch."""
        self.same += (answers(output) == self.wanted[places]).sum()
        self.count += len(places)

    def compute(self) -> Tensor:
        """Return the share."""
        return self.same / self.count


class Transfer:
    """Agree with the teacher of a `HandOver`, while the encoder comes in.

    Args:
        work: the model and its teacher.
        wanted: the teacher's answers on the validation images, whose targets are their numbers.
    """

    headline = "agreement"

    def __init__(self, work: HandOver, wanted: Tensor):
        self.work = work
        self.wanted = wanted

    def before_step(self, done: int, total: int) -> None:
        """Set the strengths of the encoder and of the model's own encoding."""
        self.work.set_progress((done + 1) / total)

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return how far the model is from its teacher."""
        loss = self.work.loss(inputs)
        if torch.distributed.is_initialized():  # its wrapper waits for gradients of all parameters, also the unused
            loss = loss + 0 * sum(each.sum() for each in self.work.trained)
        return loss

    def metrics(self) -> Metric:
        """Create the agreement of answers."""
        return SameAnswers(self.wanted)


class Parts:
    """A training source in epochs of another length: `steps` batches in all, in `epochs` equal parts."""

    def __init__(self, source: ImageSource, steps: int, epochs: int):
        self.source = source
        self.steps = steps // epochs
        self.samples = self.steps * source.sampler.batch_size

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield batches, going on in the source where the last epoch ended."""
        step, end = epoch * self.steps + start, (epoch + 1) * self.steps
        while step < end:
            turn, first = divmod(step, self.source.steps)
            count = min(end - step, self.source.steps - first)
            yield from islice(self.source.batches(turn, first, share), count)
            step += count

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of the images."""
        return self.source.fingerprint()


def answers(output: Any) -> Tensor:
    """Return the largest logit of each image, `(B,)` int64."""
    return first_output(output).flatten(1).argmax(-1)
