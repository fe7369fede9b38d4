"""Image data sets and the batches that training takes from them."""

from loope.lab.data.images.catalog import load_images
from loope.lab.data.images.source import ImageSource

__all__ = ["ImageSource", "load_images"]
