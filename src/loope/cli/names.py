"""Check names before torch is loaded, which takes seconds.

The commands call these checks first. They do nothing once torch is loaded: the library checks every name itself, and
knows those that a program registered before it called the command line.
"""

import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import loope
from loope.core.errors import LoopeError, nearest_first, one_of, require, unknown
from loope.core.files import is_path

# What the library accepts, from modules that import torch or pandas; tests compare.
KINDS = ("none", "additive", "conditional", "rotary", "bias")
SAMPLERS = ("exact", "paper")
SPLITS = ("train", "val", "test")
EXPORT_FORMATS = ("png", "npz")
REPORT_ENDINGS = {"md": "md", "html": "html", "latex": "tex", "csv": "csv", "json": "json"}  # of files, by format
TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
EXECUTORS = ("local", "here", "ray", "slurm")


@cache
def registered(what: str) -> tuple[str, ...]:
    """Return the names of all encoders or orders, from the decorators in the source files; empty without sources."""
    files = sorted((Path(loope.__file__).parent / f"{what}s").glob("*.py"))
    decorator = re.compile(rf'^@register_{what}\("(\w+)"\)', re.MULTILINE)
    return tuple(name for file in files for name in decorator.findall(file.read_text(encoding="utf-8")))


def require_encoders(names: Iterable[str]) -> None:
    """Raise `LoopeError` for an unknown encoder; a name may have * as a wildcard."""
    _require_registered("encoder", names)


def require_orders(names: Iterable[str]) -> None:
    """Raise `LoopeError` for an unknown patch order."""
    _require_registered("order", names)


def _require_registered(what: str, names: Iterable[str]) -> None:
    if "torch" in sys.modules:
        return
    known = registered(what)
    for name in names:
        if known and not any(fnmatchcase(each, name) for each in known):
            raise unknown(what, name, known)


def require_model(name: str) -> None:
    """Raise `LoopeError` if a name is neither a file or folder nor a timm model."""
    if is_path(name):
        require(Path(name).exists(), f"There is no file or folder {name}; give one, or the name of a timm model.")
    else:
        require_timm_model(name)


def require_timm_model(name: str) -> None:
    """Raise `LoopeError` if timm has no such model.

    A name that timm's sources contain may still be unknown to timm, for example a removed one; timm says so later.
    """
    if "torch" in sys.modules:
        return
    words, models = _timm_names()
    if words and name.partition(".")[0] not in words:  # without the tag of the weights
        raise LoopeError(f"timm has no model {name!r}; nearest are {', '.join(nearest_first(name, models)[:5])}.")


@cache
def _timm_names() -> tuple[set[str], list[str]]:
    """Return all words of timm's sources, deprecated names among them, and the models; empty without sources."""
    timm = find_spec("timm")
    folders = (timm.submodule_search_locations if timm is not None else None) or []
    sources = "\n".join(
        file.read_text(encoding="utf-8") for folder in folders for file in sorted(Path(folder, "models").rglob("*.py"))
    )
    models = re.findall(r"^@register_model\n(?:@.*\n)*def (\w+)\(", sources, re.MULTILINE)
    return set(re.findall(r"\w+", sources)), models


def require_executor(name: str) -> None:
    """Raise `LoopeError` unless it is an executor or the address of a Ray cluster."""
    if not name.startswith("ray://"):
        one_of("executor", name, EXECUTORS)
