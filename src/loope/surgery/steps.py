"""Batches for a number of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from loope.core.errors import require


def repeated(batches: Iterable[Any], steps: int) -> Iterator[Any]:
    """Yield `steps` batches, from the start again when they end."""
    done = 0
    while done < steps:
        started = done
        for batch in batches:
            yield batch
            done += 1
            if done == steps:
                return
        require(done > started, "There are no images: pass a list or loader of batches that can be gone through again.")


def shown(batches: Iterator[Any], steps: int, progress: bool) -> Iterator[Any]:
    """Yield the batches, with a progress bar if wanted."""
    if not progress:
        return batches
    from rich.progress import track

    return iter(track(batches, "Transfer", total=steps))
