"""Sliding windows, scales and mirror images, against doing it one pixel or one call at a time."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loope
from loope.segmentation import SETR, Segmenter, predict
from loope.segmentation.prediction import slide, starts
from tests.segmentation.test_decoders import bilinear
from tests.segmentation.tiny import CLASSES, SIDE, images, make, vit


@given(st.integers(1, 60), st.integers(0, 60), st.floats(0, 0.95))
def test_windows_cover_all_and_end_where_the_image_ends(window, more, overlap):
    length = window + more
    found = starts(length, window, overlap)
    assert found[0] == 0
    assert found[-1] + window == length
    assert found == sorted(set(found))
    step = max(1, round(window * (1 - overlap)))
    assert all(after - before <= step for before, after in pairwise(found))
    assert len(found) == -(-more // step) + 1  # and there are no more of them than it takes


@torch.no_grad()
@pytest.mark.parametrize("size", [(32, 32), (32, 75), (50, 60), (20, 20), (20, 70)])
def test_sliding_is_the_mean_over_windows_at_each_pixel(size):
    model = make(SETR, "pup")
    pixels, overlap = images(size, batch=1), 0.4
    padded = torch.zeros(1, 3, max(size[0], SIDE), max(size[1], SIDE))
    padded[..., : size[0], : size[1]] = pixels
    windows = [
        (top, left, model(padded[..., top : top + SIDE, left : left + SIDE]))
        for top in starts(padded.shape[2], SIDE, overlap)
        for left in starts(padded.shape[3], SIDE, overlap)
    ]
    given_ = slide(model, pixels, overlap)
    assert given_.shape == (1, CLASSES, *size)
    for row, column in [(0, 0), (19, 19), (size[0] - 1, size[1] - 1), (size[0] // 2, size[1] // 2), (0, size[1] - 1)]:
        seen = [
            scores[0, :, row - top, column - left]
            for top, left, scores in windows
            if top <= row < top + SIDE and left <= column < left + SIDE
        ]
        torch.testing.assert_close(given_[0, :, row, column], torch.stack(seen).mean(0))


@torch.no_grad()
def test_one_window_is_the_model_itself():
    model = make(Segmenter, "mask")
    torch.testing.assert_close(predict(model, images()), model(images()).softmax(1))
    assert predict(model, images((10, 90))).shape == (2, CLASSES, 10, 90)


@torch.no_grad()
def test_scales_and_mirror_images_are_averaged_as_probabilities():
    model = make(SETR, "naive")
    pixels = images((40, 56))
    total = torch.zeros(2, CLASSES, 40, 56)
    for scale in (0.5, 1.0, 1.25):
        seen = bilinear(pixels, (round(40 * scale), round(56 * scale)))
        for mirrored in (False, True):
            scores = slide(model, seen.flip(-1) if mirrored else seen)
            scores = scores.flip(-1) if mirrored else scores
            total += bilinear(scores, (40, 56)).softmax(1)
    given_ = predict(model, pixels, scales=(0.5, 1.0, 1.25), flip=True)
    torch.testing.assert_close(given_, total / 6, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(given_.sum(1), torch.ones(2, 40, 56))
    # Whoever looks at both an image and its mirror image sees no left and right.
    both = predict(model, pixels.flip(-1), scales=(0.5, 1.0, 1.25), flip=True)
    torch.testing.assert_close(both, given_.flip(-1), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(predict(model, pixels.flip(-1)), predict(model, pixels).flip(-1), atol=1e-3)


def test_misuse():
    model = make(SETR, "naive")
    for wrong, message in [
        ({"overlap": 1.0}, "`overlap` must be from 0"),
        ({"overlap": -0.1}, "`overlap` must be from 0"),
        ({"scales": ()}, "at least one scale"),
        ({"scales": (0.5, 0)}, "`scales` must be a positive number, got 0"),
    ]:
        with pytest.raises(loope.LoopeError, match=message):
            predict(model, images(), **wrong)
    with pytest.raises(loope.LoopeError, match=r"Call model\.eval\(\) first"):
        predict(model.train(), images())


def test_a_resized_model_has_a_larger_window():
    model = make(SETR, "naive", vit())
    loope.resize(model, (64, 96))
    assert predict(model, images((64, 100))).shape == (2, CLASSES, 64, 100)
