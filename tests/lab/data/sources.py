"""Small batches of images, for training."""

from loope.lab.data import ImageSource
from loope.lab.data.images.augment import Preparation
from loope.lab.data.images.collection import Images

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
SMALL = Preparation(size=24, mean=MEAN, std=STD, crop_pct=0.875)


def training(images: Images, batch_size: int = 8, **options) -> ImageSource:
    options = {"train": True, "augment": "crop", "seed": 5, "workers": 0, **options}
    return ImageSource(images, batch_size, SMALL, **options)
