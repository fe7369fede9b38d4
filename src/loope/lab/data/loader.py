"""Load batches of a data set in worker processes, for classification and segmentation alike."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from loope.core.errors import LoopeError
from loope.core.grid import as_size
from loope.lab.data.batches import Batch, Source
from loope.lab.data.sampler import BatchSampler
from loope.lab.data.transforms import seeded


class BadImageError(LoopeError):
    """An image cannot be read; the message names it, the reason, and what to do besides replacing it."""

    def __init__(
        self,
        path: str,
        reason: str,
        advice: str = "use skip_bad_images=True (--skip-bad-images) to count and skip such images",
    ):
        super().__init__(f"Cannot read the image {path}: {reason}. Put a good copy in its place, or {advice}.")
        self.path = path
        self.reason = reason


class BatchRequest(NamedTuple):
    """Everything that determines a batch, besides the seed."""

    epoch: int
    step: int
    indices: Sequence[int]


class LoadedBatch(NamedTuple):
    """A batch, the unreadable images (path and reason), and the error if it could not be made."""

    inputs: Tensor
    targets: Tensor
    bad: dict[str, str]
    error: str | None = None


@dataclass(frozen=True)
class BatchMaker(Dataset[LoadedBatch]):
    """Make the batch of a request, `maker[request]`, in this process or a worker; keeps no state.

    In training, an unreadable image is replaced by the next readable one, usually of the same class. In evaluation it
    is skipped, so that no image counts twice.

    Attributes:
        data: gives a sample, (image, target), for an index.
        transform: turns a sample into two tensors.
        empty: a batch without samples.
        seed: seed of augmentation and mixing.
        train: whether unreadable images are replaced.
        mix: blends the samples of a batch.
        skip_bad_images: replace or skip unreadable images instead of raising an error.
    """

    data: Dataset[tuple[Any, Any]]
    transform: Callable[[Any, Any], Batch]
    empty: Batch
    seed: int
    train: bool
    mix: Callable[[Tensor, Tensor], Batch] | None = None
    skip_bad_images: bool = False

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.data)  # type: ignore[arg-type]

    def __getitem__(self, request: BatchRequest) -> LoadedBatch:
        bad: dict[str, str] = {}
        try:
            return LoadedBatch(*self._make(request, bad), bad)
        except LoopeError as error:  # raised by the source: torch's loader would turn it into a traceback
            return LoadedBatch(torch.empty(0), torch.empty(0), {}, str(error))

    def _make(self, request: BatchRequest, bad: dict[str, str]) -> Batch:
        made = []
        for index in request.indices:
            sample = self._read(index, bad)
            if sample is not None:
                # Seeded by the original index, so that a replacement is augmented differently than its own sample.
                with seeded("augment", self.seed, request.epoch, index):
                    made.append(self.transform(*sample))
        if not made:
            return self.empty
        inputs, targets = (torch.stack(column) for column in zip(*made, strict=True))
        if self.mix is None:
            return inputs, targets
        with seeded("mix", self.seed, request.epoch, request.step):
            return self.mix(inputs, targets)

    def _read(self, index: int, bad: dict[str, str]) -> tuple[Any, Any] | None:
        """Return the sample or its replacement; None to skip it. Records unreadable images in `bad`."""
        for step in range(self.samples):
            try:
                return self.data[(index + step) % self.samples]
            except BadImageError as error:
                if not self.skip_bad_images:
                    raise
                bad[error.path] = error.reason
                if not self.train:
                    return None
        raise LoopeError(f"None of the {self.samples} images can be read, {next(iter(bad))} for one.")


class LoadedSource(Source):
    """Batches of a data set, loaded ahead by worker processes.

    Args:
        sampler: chooses the samples of each batch.
        maker: makes batches of them.
        workers: worker processes; 0 loads in this process.

    Attributes:
        samples: samples per epoch.
        steps: global batches per epoch.
        bad: reasons of unreadable images so far, by path.
    """

    def __init__(self, sampler: BatchSampler, maker: BatchMaker, workers: int):
        self.sampler = sampler
        self.maker = maker
        self.workers = as_size(workers, "workers", least=0)
        self.samples = sampler.samples
        self.steps = sampler.steps
        self.bad: dict[str, str] = {}

    @property
    def bad_images(self) -> int:
        """Number of unreadable images so far."""
        return len(self.bad)

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield the batches of an epoch from step `start` on; see `Source`.

        Raises:
            LoopeError: if a sample cannot be read, epoch, step or share is invalid, or a training batch cannot be
                shared evenly (in pairs if mixed).
        """
        slices = self.sampler.batches(epoch, start, share)
        requests = (BatchRequest(epoch, step, indices.tolist()) for step, indices in enumerate(slices, start))
        loader: DataLoader[LoadedBatch] = DataLoader(
            self.maker,
            batch_size=None,  # the maker returns whole batches
            sampler=requests,
            num_workers=self.workers,
            generator=torch.Generator(),  # otherwise the loader would draw from torch's global generator
            worker_init_fn=leave_stopping_to_the_trainer,
            pin_memory=torch.cuda.is_available(),
        )
        for loaded in loader:
            if loaded.error is not None:
                raise LoopeError(loaded.error)
            self.bad.update(loaded.bad)
            yield loaded.inputs, loaded.targets


def leave_stopping_to_the_trainer(worker: int) -> None:
    """Ignore Ctrl-C and the first SIGTERM in a worker process: the trainer may need batches to finish its step.

    Schedulers send SIGTERM to all processes of a job. A second one ends a worker that hangs.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(signal.SIGTERM, signal.SIG_DFL))
