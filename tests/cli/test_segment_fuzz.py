"""Damaged images and masks: read, or refused with a `LoopeError`; nothing else happens."""

from collections import Counter
from pathlib import Path

import pytest
import torch

import loope
from loope.cli import segment
from loope.lab.data.segmentation import CamVid, Pairs
from loope.segmentation import SETR
from tests.mutations import images, masks, mutated
from tests.segmentation.tiny import make, vit

SOME, MANY = range(300), range(300, 6300)


@pytest.fixture(scope="module")
def model():
    made = make(SETR, "naive", vit((16, 24), depth=1), classes=CamVid.labels)
    loope.attach(made, "gilbert")
    return made


def outcomes(seeds, good: list[bytes], path: Path, use) -> Counter[str]:
    """How often what came of a damaged file; what is neither a result nor a `LoopeError` stops the test."""
    found: Counter[str] = Counter()
    for seed in seeds:
        path.write_bytes(mutated(good, seed))
        try:
            use(path)
            found["read"] += 1
        except loope.LoopeError:
            found["refused"] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return found


def fuzz_images(seeds, model, folder) -> None:
    def use(path):
        picture = segment._read(path)
        mask = segment._classes(model, picture, False, [1.0], False)
        assert mask.shape == picture.shape[:2]

    found = outcomes(seeds, images(), folder / "image.jpg", use)
    assert found.total() == len(seeds)
    assert min(found["read"], found["refused"]) > len(seeds) / 20, found


def fuzz_masks(seeds, folder) -> None:
    image = folder / "image.png"
    image.write_bytes(images()[0])

    def use(path):
        pixels, mask = Pairs([(image, path)], CamVid.labels, {value: value for value in range(len(CamVid.labels))})[0]
        assert pixels.shape[1:] == mask.shape
        assert mask.dtype == torch.uint8

    found = outcomes(seeds, masks(len(CamVid.labels)), folder / "mask.png", use)
    assert found.total() == len(seeds)
    assert min(found["read"], found["refused"]) > len(seeds) / 20, found


def test_damaged_images(model, tmp_path):
    fuzz_images(SOME, model, tmp_path)


def test_damaged_masks(tmp_path):
    fuzz_masks(SOME, tmp_path)


@pytest.mark.slow
def test_many_damaged_images(model, tmp_path):
    fuzz_images(MANY, model, tmp_path)


@pytest.mark.slow
def test_many_damaged_masks(tmp_path):
    fuzz_masks(MANY, tmp_path)
