"""Image data sets and batches of them for training; loaded when first used, so that lists of them need no torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loope.lab.data.images.catalog import load_images as load_images
    from loope.lab.data.images.source import ImageSource as ImageSource

_HOME = {"ImageSource": "loope.lab.data.images.source", "load_images": "loope.lab.data.images.catalog"}
__all__ = ["ImageSource", "load_images"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loope.lab.data' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
