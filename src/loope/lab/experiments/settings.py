"""Where a run finds things and how it uses this machine: nothing here changes its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run needs to know of the machine.

    Args:
        data: folder with the data sets; by default the one that `LOOPE_DATA` names.
        download: get data sets that are missing, where a program can.
        classes: the list of classes of ImageNet-100.
        skip_bad_images: go on without images that cannot be read.
        workers: processes that decode images ahead; None to choose.
        trackers: for loss curves while training; None for TensorBoard, where it is installed.
        progress: whether a run shows bars itself; else it tells how far it is through a file in its folder.
    """

    data: str | None = None
    download: bool = False
    classes: str | None = None
    skip_bad_images: bool = False
    workers: int | None = None
    trackers: tuple[str, ...] | None = None
    progress: bool = True

    @staticmethod
    def device() -> Any:
        """Where batches that are computed rather than read should be made."""
        return "cuda" if torch.cuda.is_available() else None
