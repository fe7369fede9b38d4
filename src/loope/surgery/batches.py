"""Batches of images: repeated for a number of steps, and taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from loope.core.errors import require, shown


def repeated(batches: Iterable[Any], steps: int) -> Iterator[Any]:
    """Yield `steps` batches, from the start again when they end."""
    require(isinstance(batches, Iterable), f"Expected batches of images, in a list or loader, got {shown(batches)}.")
    done = 0
    while done < steps:
        started = done
        for batch in batches:
            yield batch
            done += 1
            if done == steps:
                return
        require(done > 0, "There are no images: pass batches of them.")
        require(
            done > started,
            f"The images end after {done} of {steps} batches and cannot be gone through again; pass a list or loader.",
        )


def images_of(batch: Any) -> Tensor:
    """Return the images of a batch: the batch itself, or its first entry."""
    while isinstance(batch, tuple | list) and batch:
        batch = batch[0]
    require(
        isinstance(batch, Tensor) and batch.dim() == 4 and batch.is_floating_point(),
        f"Expected batches of images, (B, C, H, W) float, got {type(batch).__name__}"
        + (f" {batch.dtype} of shape {tuple(batch.shape)}." if isinstance(batch, Tensor) else "."),
    )
    images: Tensor = batch
    return images
