"""Image data sets and training batches."""

from loope.core.packages import require_packages

require_packages("The laboratory's data", "train", "timm", "torchvision")

from loope.lab.data.catalog import load_images  # noqa: E402
from loope.lab.data.classification import ImageSource  # noqa: E402

__all__ = ["ImageSource", "load_images"]
