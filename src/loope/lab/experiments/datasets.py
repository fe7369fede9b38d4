"""What a run learns from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from loope.lab.data.batches import Source
from loope.lab.engine.tasks import Task
from loope.segmentation.labels import Labels


class RunData(NamedTuple):
    """A source for each part, the task, how many outputs the model has, and for segmentation the classes.

    `digests` tells which images are in each part, where that depends on what is on the disk.
    """

    train: Source
    valid: Source
    test: Source
    task: Task
    outputs: int
    labels: Labels | None = None
    digests: Mapping[str, str] = MappingProxyType({})
