"""What a source of images does not take, and what it says then."""

import pytest

from loope.core.errors import LoopeError
from loope.lab.data.transforms import Preparation
from tests.lab.data.sources import training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": "rotate"}, "Unknown augmentation 'rotate'; use one of"),
        ({"train": False}, "Only training images are augmented and mixed; use train=True"),
        ({"train": False, "augment": "none", "mixup": 0.1}, "Only training images are augmented and mixed"),
        ({"mixup": -1.0}, "`mixup` and `cutmix` must be 0 or more, got -1.0 and 0.0"),
        ({"batch_size": 31}, "at least one whole batch, got 30 samples and a `batch_size` of 31"),
        ({"batch_size": 0}, "`batch_size` must be a whole number from 1 up"),
        ({"workers": -1}, "`workers` must be a whole number from 0 up"),
        ({"seed": -1}, "`seed` must be a whole number from 0 up"),
    ],
)
def test_mistakes_are_explained(pets, options, message):
    with pytest.raises(LoopeError, match=message):
        training(pets, **options)


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, {"epoch": -1}, "`epoch` must be a whole number from 0 up"),
        ({}, {"epoch": 0, "start": 4}, "`start` must be one of the 3 steps of an epoch .*, got 4"),
        ({}, {"epoch": 0, "share": (2, 2)}, r"`share` must be \(rank, processes\).*got \(2, 2\)"),
        (
            {},
            {"epoch": 0, "share": (0, 3)},
            "must be shared evenly; got 8 samples for 3 processes; use a multiple of 3",
        ),
        ({"mixup": 0.5}, {"epoch": 0, "share": (0, 8)}, "in groups of 2; .* for 8 processes; use a multiple of 16"),
        ({"cutmix": 0.5, "batch_size": 7}, {"epoch": 0}, "evenly, in groups of 2; .* use a multiple of 2"),
        ({"mixup": 0.5}, {"epoch": 0, "share": (0, 0)}, r"`share` must be \(rank, processes\)"),
    ],
)
def test_batches_that_are_none(pets, options, arguments, message):
    with pytest.raises(LoopeError, match=message):
        next(training(pets, **options).batches(**arguments))


@pytest.mark.parametrize(
    "bad",
    [
        *({"size": 0}, {"mean": (0.5, 0.5)}, {"std": (0.5, 0.5, 0.0)}, {"crop_pct": 0.0}, {"crop_pct": 1.5}),
        {"interpolation": "cubic"},
    ],
)
def test_preparations_that_are_none(bad):
    with pytest.raises(LoopeError, match=r"must be|Unknown interpolation 'cubic'; use one of: bicubic"):
        Preparation(**bad)
