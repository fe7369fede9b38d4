"""State and result of a run, and the check that a checkpoint belongs to it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn

from loope.core.errors import LoopeWarning, require
from loope.lab.engine.checkpoint import Saved
from loope.lab.engine.recipe import Recipe


@dataclass
class State:
    """Everything of a run that is not a tensor.

    Attributes:
        identity: settings the run was started with; see `check_same`.
        epoch: epochs finished.
        step: optimizer steps taken in the current epoch; the evaluation follows the last one.
        loss: sum of the losses of those steps.
        seconds: time spent on training and evaluation.
        training: seconds spent on training steps.
        history: one entry per finished epoch.
        best: epoch, metrics and checkpoint of the best epoch so far.
        scaler: state of the gradient scaler (float16).
    """

    identity: dict[str, Any]
    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    training: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None
    scaler: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the checkpoint of this state; `loope.lab.engine.checkpoint.NAME` matches it."""
        return f"epoch-{self.epoch:05}-step-{self.step:07}"

    def end_epoch(self, lr: float, steps: int, metrics: dict[str, Any], headline: str) -> None:
        """Record a finished epoch, and update the best one."""
        entry = {"epoch": self.epoch + 1, "loss": self.loss / steps, "lr": lr, "metrics": metrics}
        self.history.append({**entry, "seconds": self.seconds})
        self.epoch, self.step, self.loss = self.epoch + 1, 0, 0.0
        if self.best is None or _rank(metrics[headline]) > _rank(self.best["metrics"][headline]):
            self.best = {"epoch": self.epoch, "metrics": metrics, "checkpoint": self.name}


def _rank(score: float) -> float:
    return -math.inf if math.isnan(score) else score


@dataclass(frozen=True)
class Result:
    """Result of a finished run.

    Attributes:
        epochs: epochs trained.
        steps: optimizer steps taken.
        metrics: scores after the last epoch, by name.
        best: scores after the best epoch.
        best_epoch: number of the best epoch, from 1.
        history: number, mean loss, last learning rate, metrics and elapsed seconds of each epoch.
        seconds: time spent on training and evaluation, over all sessions.
        images_per_second: training throughput.
        weights: file with the last weights.
        best_weights: file with the weights of the best epoch; None if damaged or removed.
    """

    epochs: int
    steps: int
    metrics: dict[str, Any]
    best: dict[str, Any]
    best_epoch: int
    history: list[dict[str, Any]]
    seconds: float
    images_per_second: float
    weights: Path
    best_weights: Path | None


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Describe the differences between two nested dictionaries of plain values.

    Examples:
        >>> list(differences({"seed": 0, "recipe": {"lr": 0.1, "epochs": 2}}, {"seed": 1, "recipe": {"lr": 0.1}}))
        ['seed was 0 and is 1', 'recipe.epochs was 2 and is missing']
    """
    for key in [*old, *(key for key in new if key not in old)]:
        before, now = old.get(key, "missing"), new.get(key, "missing")
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from differences(before, now, f"{path}{key}.")
        elif before != now:
            yield f"{path}{key} was {before} and is {now}"


def check_same(folder: Path, saved: Saved, identity: Mapping[str, Any], model: nn.Module) -> None:
    """Check that a checkpoint belongs to this run: same settings, data and model.

    Data too large to hash are compared by modification time. Copies may differ in it, so this only gives a
    `LoopeWarning`. Checkpoints of versions without fingerprints are accepted.

    Raises:
        LoopeError: naming what differs.
    """
    before = {"data": identity["data"], **saved.state["identity"]}
    for name, default in _recipe_defaults().items():  # a checkpoint may be older than a field
        before["recipe"].setdefault(name, default)
    (old, old_times), (new, new_times) = _without_times(before), _without_times(identity)
    was, now = (
        # An extra state is checked by the module that reads it, and may have any length.
        {name: tuple(weights[name].shape) for name in sorted(weights) if not name.endswith("_extra_state")}
        for weights in (saved.tensors["weights"], model.state_dict())
    )
    found = [*differences(old, new), *differences(was, now, "the model's ")]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    require(
        not found,
        f"{folder} holds a run that was started differently: {'; '.join(found[:3])}{more}. Go on as it was started, or "
        "choose another folder.",
    )
    if old_times != new_times:
        warnings.warn(
            f"The data of {folder} have the same names and sizes as when the run was started, but other times. Copies "
            "have; if a file was changed, choose another folder.",
            LoopeWarning,
            stacklevel=2,
        )


def _recipe_defaults() -> dict[str, Any]:
    return {each.name: each.default for each in fields(Recipe) if each.default is not MISSING}


def _without_times(identity: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the modification times of the data from what must be equal."""
    data = {part: {k: v for k, v in each.items() if k != "times"} for part, each in identity["data"].items()}
    return {**identity, "data": data}, {part: each.get("times") for part, each in identity["data"].items()}
