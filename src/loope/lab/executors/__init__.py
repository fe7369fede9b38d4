"""Run many jobs at once on this machine, on Ray or on a SLURM cluster, through one `submit`."""

from __future__ import annotations

from typing import Any

from loope.core.registry import Registry
from loope.lab.executors.base import Executor, RunError
from loope.lab.executors.local import LocalExecutor
from loope.lab.executors.on_ray import RayExecutor
from loope.lab.executors.serial import SerialExecutor
from loope.lab.executors.slurm import SlurmExecutor

__all__ = ["Executor", "RunError", "create_executor"]

_EXECUTORS: Registry[type[Executor]] = Registry("executor")
_EXECUTORS.register("local")(LocalExecutor)
_EXECUTORS.register("here")(SerialExecutor)
_EXECUTORS.register("ray")(RayExecutor)
_EXECUTORS.register("slurm")(SlurmExecutor)


def create_executor(on: str = "local", jobs: int | None = None, **options: Any) -> Executor:
    """Create an executor by name; use it as a context manager.

    Args:
        on: "local", "here" (in this process), "ray", "ray://host:port" or "slurm".
        jobs: concurrent calls; each executor has its own default.
        options: options of `LocalExecutor`, `SerialExecutor`, `RayExecutor` or `SlurmExecutor`.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with folder, create_executor(jobs=2) as executor:
        ...     for future in [executor.submit(os.mkdir, f"{folder.name}/{name}") for name in "ab"]:
        ...         future.result()
        ...     sorted(os.listdir(folder.name))
        ['a', 'b']

    Raises:
        LoopeError: for an unknown name or option, or if a package is missing.
    """
    name, address = ("ray", on) if on.startswith("ray://") else (on, None)
    executor: Executor = _EXECUTORS.create(name, {"jobs": jobs, "address": address}, options)
    return executor
