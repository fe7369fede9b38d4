"""The data of a run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from loope.lab.data.batches import Source
from loope.lab.engine.tasks import Task
from loope.segmentation.labels import Labels


class RunData(NamedTuple):
    """A source for each split, the task, the number of model outputs, and for segmentation the classes.

    `digests` identifies the images of each split, where these depend on files.
    """

    train: Source
    valid: Source
    test: Source
    task: Task
    outputs: int
    labels: Labels | None = None
    digests: Mapping[str, str] = MappingProxyType({})
