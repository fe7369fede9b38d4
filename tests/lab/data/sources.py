"""Small batches for tests, and how they are compared."""

import torch
from torch import Tensor

from loope.lab.data import ImageSource
from loope.lab.data.classification import Images
from loope.lab.data.transforms import Preparation

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
SMALL = Preparation(size=24, mean=MEAN, std=STD, crop_pct=0.875)


Batches = list[tuple[Tensor, Tensor]]


def assert_equal(ours: Batches, theirs: Batches) -> None:
    assert len(ours) == len(theirs) > 0
    for (images, targets), (expected, wanted) in zip(ours, theirs, strict=True):
        assert torch.equal(images, expected)
        assert torch.equal(targets, wanted)
        assert (images.dtype, targets.dtype) == (expected.dtype, wanted.dtype)


def training(images: Images, batch_size: int = 8, **options) -> ImageSource:
    options = {"train": True, "augment": "crop", "seed": 5, "workers": 0, **options}
    return ImageSource(images, batch_size, SMALL, **options)


def column_image(size=(40, 60)) -> tuple[Tensor, Tensor]:
    """An image whose red is the class of its mask, and whose green is the column."""
    mask = (torch.arange(size[1]) // 10).expand(size).to(torch.uint8).contiguous()
    green = (torch.arange(size[1]) * 4).expand(size)
    return torch.stack((mask * 20, green, torch.zeros(size))).to(torch.uint8), mask
