"""Settings of the machine: data, workers and output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the machine.

    Args:
        data: folder of the data sets; `LOOPE_DATA` by default.
        download: download missing data sets, if possible.
        workers: data loader workers; None to choose automatically.
        trackers: experiment trackers; None for TensorBoard, if installed.
    """

    data: str | None = None
    download: bool = False
    workers: int | None = None
    trackers: tuple[str, ...] | None = None
