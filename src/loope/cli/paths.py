"""Check files and folders before torch is loaded, which takes seconds.

The library checks most of them again, in the same words. `WeightsFile` loads torch too, but only for a file that it can
read: open it after all other checks.
"""

import os
from pathlib import Path

from loope.core.errors import LoopeError, require
from loope.core.weights import WeightsFile


def require_output_folder(folder: Path, option: str) -> None:
    """Raise `LoopeError` if a folder to write to is a file."""
    require(
        folder.is_dir() or not os.path.lexists(folder),
        f"{option} takes a folder, got the file {str(folder)!r}; choose a folder.",
    )


def require_images(folder: Path) -> None:
    """Raise `LoopeError` if there is no such folder of images."""
    require(folder.is_dir(), f"There is no folder {folder}; name one with images, *.jpg or *.png, at any depth.")


def require_labels(path: Path) -> None:
    """Raise `LoopeError` if a file of labels cannot be opened."""
    try:
        path.open().close()
    except OSError as error:
        raise LoopeError(
            f"Cannot read the labels {path}: {error}; give a text file with lines 'relative/path index'."
        ) from error


def require_new_model(to: Path) -> None:
    """Raise `LoopeError` unless a swapped model can be written to a file, now or by the run that is unfinished."""
    require(to.suffix == ".safetensors", f"A model is written to a .safetensors file, got {str(to)!r}.")
    require(to.parent.is_dir() and not to.is_dir(), f"{to} must be a file in a folder that exists.")
    require(
        to.with_name(f"{to.name}.run").exists() or not os.path.lexists(to),
        f"{to} exists already; move or delete it, or write to another file.",
    )


def require_whole(model: str) -> None:
    """Raise `LoopeError` if a model is named by a file that is no whole .safetensors file."""
    if Path(model).suffix == ".safetensors" and not Path(model).is_dir():
        WeightsFile(model)
