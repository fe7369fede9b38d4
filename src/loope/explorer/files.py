"""What the views can show of a checkpoint, uploaded or named at the start."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from loope.core.errors import LoopeError
from loope.core.weights import WeightsFile
from loope.explorer.checkpoints import contents
from loope.explorer.offsets import read_encoder
from loope.explorer.uploads import read_weights

ENCODERS = re.compile(r"pos|(^|\.)loope\.")  # tensors of encoders and tables of positions; data.js has the same


class NamedFile(NamedTuple):
    """A checkpoint on this machine.

    Attributes:
        path: the file.
        encoders: a safetensors file with its encoders and position tables only.
        contents: as `describe_file` tells them.
    """

    path: Path
    encoders: bytes
    contents: dict[str, object]

    @property
    def id(self) -> str:
        """Return the id of its encoders."""
        return str(self.contents["id"])


def read_named(path: Path) -> NamedFile:
    """Read the encoders and position tables of a checkpoint.

    Raises:
        LoopeError: if the file cannot be read or has no position encoding.
    """
    encoders = encoders_of(path)
    told = describe_file(encoders)
    if "error" in told:
        raise LoopeError(f"The explorer has nothing to show of {path.name!r}: {told['error']}")
    return NamedFile(path, encoders, told)


def encoders_of(path: Path) -> bytes:
    """Return a safetensors file with a checkpoint's encoders and position tables, and its description of the model.

    Raises:
        LoopeError: if the file is missing or no safetensors file.
    """
    file = WeightsFile(path)
    from safetensors.torch import save

    return save({name: file[name] for name in file if ENCODERS.search(name)}, file.metadata or None)


def describe_file(body: bytes) -> dict[str, object]:
    """Tell what a safetensors file contains.

    Returns:
        The file's `id`; `choices` for Compare, those in use first, or why there are none; its `grid`, a guess; and
        LOOPE's grid, or why there is none.

    Raises:
        LoopeError: if it is damaged or not a safetensors file.
    """
    weights, name = read_weights(body), hashlib.sha256(body).hexdigest()[:16]
    loope = _or_error(lambda: {"grid": read_encoder(weights).grid})
    return {"id": name, "loope": loope, **_or_error(lambda: contents(weights, name))}


def _or_error(look: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return what `look` returns, or its error message."""
    try:
        return look()
    except LoopeError as error:
        return {"error": str(error)}
