"""Read the published pickles of CIFAR-100 without running code.

A pickle can name and call any function. These files name three of NumPy, to rebuild arrays. Here those names map to
classes that only store their arguments, and every other name is refused.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require
from loope.lab.data.images.collection import Images
from loope.lab.data.images.readers import Memory

SIDE = 32
AGAIN = "delete the folder and download it again (download=True, --download)."


class _Type:
    """Data type of a pickled array."""

    def __init__(self, name: str, *options: object):
        self.name = name

    def __setstate__(self, state: object) -> None:
        pass  # byte order, irrelevant for single bytes


class _Array:
    """Shape, type and content of a pickled array."""

    def __init__(self, *options: object):
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *_, self.shape, self.type, self.by_columns, self.content = state

    def tensor(self) -> Tensor:
        """Return the array as a uint8 tensor."""
        require(self.type.name in ("u1", "|u1"), f"its numbers are {self.type.name!r}, not bytes")
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        flat = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return flat.view(self.shape[::-1]).T if self.by_columns else flat.view(self.shape)


STAND_INS = {"numpy.ndarray": _Array, "numpy.dtype": _Type, "numpy.core.multiarray._reconstruct": _Array}


class _PlainUnpickler(pickle.Unpickler):
    """Read dictionaries, lists, strings, numbers, and arrays as `_Array`; refuse everything else."""

    def find_class(self, module: str, name: str) -> Any:
        asked = f"{module}.{name}".replace("numpy._core.", "numpy.core.")  # renamed in NumPy 2
        if asked not in STAND_INS:
            raise LoopeError(f"it asks for {asked}, which CIFAR-100 does not need and which could run code")
        return STAND_INS[asked]


def unpickle(file: IO[bytes]) -> Any:
    """Read plain values and arrays from a pickle written by Python 2.

    Raises:
        LoopeError: if the pickle names anything else.
    """
    return _PlainUnpickler(file, encoding="latin1").load()


def read_cifar100(folder: Path) -> Images:
    """Read `train` and `test` into memory: 60,000 images of 32x32 take 184 MB.

    Raises:
        LoopeError: if a file is damaged.
    """
    classes: list[str] = _open(folder / "meta", "fine_label_names")[0]
    pixels: list[Tensor] = []
    labels: list[int] = []
    names: list[str] = []
    official: list[str] = []
    for part in ("train", "test"):
        data, numbers = _open(folder / part, "data", "fine_labels")
        shape = getattr(data, "shape", None)
        require(
            isinstance(numbers, list)
            and shape == (len(numbers), 3 * SIDE * SIDE)
            and all(isinstance(number, int) and 0 <= number < len(classes) for number in numbers),
            f"{folder / part} does not hold images of 32x32 with a class each; {AGAIN}",
        )
        # Stored as three planes of 32x32; images are height x width x 3.
        pixels.append(data.reshape(-1, 3, SIDE, SIDE).permute(0, 2, 3, 1).flatten())
        labels += numbers
        names += [f"{part}/{number}" for number in range(len(numbers))]
        official += [part] * len(numbers)
    starts = range(0, len(labels) * 3 * SIDE * SIDE, 3 * SIDE * SIDE)
    return Images(Memory(names, torch.cat(pixels), starts, [(SIDE, SIDE)] * len(labels)), labels, official, classes)


def _open(path: Path, *keys: str) -> list[Any]:
    """Read the given keys of a file; arrays as tensors."""
    require(not path.exists() or path.is_file(), f"{path} must be a file; {AGAIN}")  # reading a pipe would block
    try:
        with path.open("rb") as file:
            content = unpickle(file)
        found = [content[key] for key in keys]
        return [value.tensor() if isinstance(value, _Array) else value for value in found]
    except Exception as error:  # a damaged pickle can raise anything
        raise LoopeError(f"Cannot read {path}: {error}; {AGAIN}") from error
