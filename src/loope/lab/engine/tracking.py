"""Log to TensorBoard and other experiment trackers, through accelerate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loope.core.errors import one_of, require

if TYPE_CHECKING:
    from accelerate import Accelerator

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
PROJECT = "loope"


def chosen(names: Sequence[str] | None) -> list[str]:
    """Return the trackers to use: the named ones, or TensorBoard if it is installed.

    Raises:
        LoopeError: for an unknown tracker, or one that is not installed.
    """
    if names is None:
        return ["tensorboard"] if find_spec("tensorboard") else []
    for name in names:
        one_of("tracker", name, TRACKERS)
        require(find_spec(name) is not None, f"The tracker {name!r} is not installed: pip install {name}.")
    return list(names)


def begin(accelerator: Accelerator, name: str, folder: Path, config: Mapping[str, Any], step: int) -> None:
    """Start the trackers of a run; a resumed run continues its curves after `step`, if the tracker can."""
    number = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    options: dict[str, dict[str, Any]] = {
        "tensorboard": {"purge_step": step + 1},
        "wandb": {"name": name, "dir": str(folder), "id": number, "resume": "allow"},
        "mlflow": {"run_name": name},
        "trackio": {"name": f"{name}-{number}", "resume": "allow"},
    }
    plain = {key: value for key, value in config.items() if value is not None}  # TensorBoard does not accept None
    accelerator.init_trackers(PROJECT, plain, options)


def end(accelerator: Accelerator) -> None:
    """Close the trackers. Not `end_training`, which would also destroy the process group."""
    for tracker in accelerator.trackers:
        tracker.finish()
