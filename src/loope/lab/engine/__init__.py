"""Train and evaluate on one process or many. A killed run resumes to the same result.

Names are loaded on first use, so that recipes can be created without importing torch.

Example:
    >>> from loope.lab.engine import Recipe
    >>> Recipe(epochs=10, optimizer="adam").lr  # the paper: Adam, 1e-3 to 2.5e-5
    0.001
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loope.core.packages import require_packages

_HOME = {
    "Recipe": "recipe",
    "train": "training",
    "evaluate": "evaluation",
    "Result": "state",
    "Interrupted": "signals",
    "Task": "tasks",
    "Classification": "tasks",
    "Bits": "tasks",
}

_LIGHT = ("Recipe", "Interrupted")  # need neither torch nor the packages of [train]

__all__ = [*_HOME]

if TYPE_CHECKING:
    from loope.lab.engine.evaluation import evaluate as evaluate
    from loope.lab.engine.recipe import Recipe as Recipe
    from loope.lab.engine.signals import Interrupted as Interrupted
    from loope.lab.engine.state import Result as Result
    from loope.lab.engine.tasks import Bits as Bits
    from loope.lab.engine.tasks import Classification as Classification
    from loope.lab.engine.tasks import Task as Task
    from loope.lab.engine.training import train as train


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loope.lab.engine' has no attribute {name!r}")
    if name not in _LIGHT:
        require_packages("Training", "train", "accelerate", "safetensors", "timm", "torchmetrics")
    value = getattr(import_module(f"loope.lab.engine.{_HOME[name]}"), name)
    globals()[name] = value
    return value
