"""Training batches of images, decoded by worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from loope.core.errors import LoopeError, require
from loope.core.grid import as_grid, as_size
from loope.lab.data.batches import Batch, Source
from loope.lab.data.images.augment import Preparation
from loope.lab.data.images.collection import Images
from loope.lab.data.images.loading import ImageBatches
from loope.lab.data.loader import BatchRequest, load_batches
from loope.lab.data.sampler import BatchSampler


class ImageSource(Source):
    """Batches of images.

    A batch depends only on the seed, the epoch and the step, not on the number of workers or processes, or on earlier
    batches.

    Args:
        images: a data set or a split of one, from `load_images`.
        batch_size: global batch size over all processes.
        preparation: preprocessing that the model expects.
        train: shuffle every epoch, drop the last incomplete batch, and augment.
        seed: seed of order, augmentation and mixing.
        augment: augmentation of training images, one of `loope.lab.data.images.augment.AUGMENTS`.
        mixup: alpha of timm's mixup; 0 to disable.
        cutmix: alpha of timm's cutmix; 0 to disable.
        workers: worker processes; 0 decodes in this process; None for half the cores, at most 8.
        skip_bad_images: skip and count unreadable images instead of raising an error.

    Attributes:
        samples: images per epoch.
        steps: global batches per epoch.
        bad: reasons of unreadable images so far, by path.

    Raises:
        LoopeError: if there is not a single batch, or an argument is invalid; from `batches`, for an unreadable image.
    """

    def __init__(
        self,
        images: Images,
        batch_size: int = 64,
        preparation: Preparation | None = None,
        *,
        train: bool = False,
        seed: int = 0,
        augment: str = "none",
        mixup: float = 0.0,
        cutmix: float = 0.0,
        workers: int | None = None,
        skip_bad_images: bool = False,
    ):
        preparation = preparation or Preparation()
        self._sampler = BatchSampler(len(images), batch_size, train=train, seed=seed, group=2 if mixup or cutmix else 1)
        self.samples = self._sampler.samples
        self.steps = self._sampler.steps
        self.workers = _half_the_cores() if workers is None else as_size(workers, "workers", least=0)
        self.bad: dict[str, str] = {}
        require(
            train or (augment == "none" and not mixup and not cutmix),
            f"Only training images are augmented and mixed; use train=True, or leave out augment={augment!r}, "
            f"mixup={mixup} and cutmix={cutmix}.",
        )
        require(min(mixup, cutmix) >= 0, f"`mixup` and `cutmix` must be 0 or more, got {mixup} and {cutmix}.")
        self._batches = ImageBatches(
            images,
            preparation.transform(augment),
            shape=as_grid(preparation.size, "size"),
            seed=seed,
            train=train,
            mixup=mixup,
            cutmix=cutmix,
            skip_bad_images=skip_bad_images,
        )

    @property
    def bad_images(self) -> int:
        """Number of unreadable images so far."""
        return len(self.bad)

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of names, labels and contents."""
        return self._batches.images.fingerprint()

    def batches(self, epoch: int, start: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield `(b, 3, H, W)` float32 images and classes: `(b,)` int64, or `(b, classes)` float32 when mixed.

        Raises:
            LoopeError: if an image is unreadable, epoch, step or share is invalid, or a training batch cannot be shared
                evenly (in pairs if mixed).
        """
        slices = self._sampler.batches(epoch, start, share)
        requests = (BatchRequest(epoch, step, indices.tolist()) for step, indices in enumerate(slices, start))
        for made in load_batches(self._batches, requests, self.workers):
            if made.error is not None:
                raise LoopeError(made.error)
            self.bad.update(made.bad)
            yield made.images, made.targets


def _half_the_cores() -> int:
    return max(1, min(8, (os.cpu_count() or 1) // 2))
