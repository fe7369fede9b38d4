"""Transforms of images and masks."""

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.lab.data.transforms import Augment, SegmentationTransform, seeded
from loope.segmentation.labels import VOID
from tests.lab.data.sources import column_image


def test_for_evaluation_images_are_fitted_and_normalised():
    image, mask = column_image()
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    same, kept = SegmentationTransform(Grid(40, 60), mean, std)(image, mask)
    for channel in range(3):
        torch.testing.assert_close(same[channel], (image[channel] / 255 - mean[channel]) / std[channel])
    assert torch.equal(kept, mask.long())
    half, classes = SegmentationTransform(Grid(20, 30), mean, std)(image, mask)
    assert half.shape == (3, 20, 30)
    assert classes[0].tolist() == [column // 5 for column in range(30)]  # no class between two classes


def test_image_and_mask_change_alike():
    image, mask = column_image()
    transform = SegmentationTransform(Grid(40, 60), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), Augment(jitter=0.0))
    mirrored, outside, scales = 0, 0, set()
    for index in range(60):
        with seeded("augment", 0, 0, index):
            pixels, classes = transform(image, mask)
        assert pixels.shape == (3, 40, 60)
        assert classes.shape == (40, 60)
        red = pixels[0] * 255 / 20
        inside = classes != VOID
        assert torch.equal(pixels.sum(0) * ~inside, torch.zeros(40, 60))  # what was added is void, and zero
        outside += bool((~inside).any())
        # Where red has not been mixed with its neighbours, it still tells the class.
        clear = inside & ((red - red.round()).abs() < 1e-3) & (pixels[1] > 0)
        assert clear.sum() > 50
        assert (red[clear].round() == classes[clear]).double().mean() > 0.9
        row = classes[inside.any(1)][0]
        row = row[row != VOID]
        mirrored += bool(row[0] > row[-1])
        steps = row.diff().abs().sum().item()
        scales.add(round(len(row) / max(steps, 1)))
    assert 15 < mirrored < 45
    assert 10 < outside < 50
    assert len(scales) > 5


def test_colours_change_alone():
    image, mask = torch.full((3, 20, 20), 120, dtype=torch.uint8), torch.ones(20, 20, dtype=torch.uint8)
    image[0] = 60
    plain = SegmentationTransform(Grid(20, 20), (0.5,) * 3, (0.5,) * 3, Augment(scale=(1.0, 1.0), flip=0.0, jitter=0.0))
    vivid = SegmentationTransform(Grid(20, 20), (0.5,) * 3, (0.5,) * 3, Augment(scale=(1.0, 1.0), flip=0.0, jitter=0.5))
    before = plain(image, mask)[0]
    torch.testing.assert_close(before, (image / 255 - 0.5) / 0.5)
    after = []
    for index in range(20):
        with seeded("augment", 0, 0, index):
            after.append(vivid(image, mask))
    assert all(torch.equal(classes, mask.long()) for _, classes in after)
    assert len({round(pixels.mean().item(), 4) for pixels, _ in after}) == 20
    assert max((pixels - before).abs().max().item() for pixels, _ in after) < 0.8


def test_augmentation_out_of_range():
    for wrong in ({"scale": (0.0, 1.0)}, {"scale": (2.0, 1.0)}, {"flip": 1.5}, {"jitter": -0.1}):
        with pytest.raises(loope.LoopeError, match=f"`{next(iter(wrong))}` must be"):
            Augment(**wrong)
