"""Loading of batches: workers, and images that cannot be read, named, or counted and skipped, the same every time."""

import multiprocessing
import os
import shutil
import signal

import numpy as np
import pytest
import torch

from loope.core.errors import LoopeError
from loope.lab.data import ImageSource, load_images
from loope.lab.data.classification import Images
from loope.lab.data.loader import LoadedSource
from loope.lab.data.segmentation import Augment, CamVid, SegmentationSource
from loope.lab.data.transforms import Preparation
from loope.lab.engine.evaluation import evaluate
from loope.lab.engine.tasks import Classification
from tests.lab.data.dataset_files import write_camvid, write_folders, write_image
from tests.lab.data.sources import assert_equal

SMALL = Preparation(size=16)
CLASSES = ["n1", "n2"]


@pytest.fixture
def images(tmp_path) -> Images:
    """Six images in two classes; 1 is cut short, 3 is a text."""
    write_folders(tmp_path / "imagenet", CLASSES, {"train": 3, "val": 1})
    folder = tmp_path / "imagenet" / "train"
    cut = folder / "n1" / "n1_1.JPEG"
    cut.write_bytes(cut.read_bytes()[:-60])
    shutil.move(folder / "n2" / "n2_0.JPEG", tmp_path / "spare.JPEG")
    (folder / "n2" / "n2_0.jpg").write_text("<html>404</html>")
    return load_images("imagenet", tmp_path).take(range(6))


def test_the_images_are_as_described(images):
    assert [name.split("/")[-1] for name in images.reader.names] == [
        *("n1_0.JPEG", "n1_1.JPEG", "n1_2.JPEG"),
        *("n2_0.jpg", "n2_1.JPEG", "n2_2.JPEG"),
    ]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("good", "path", "reason"),
    [
        ([0, 1, 2], "train/n1/n1_1.JPEG", "image file is truncated"),
        ([2, 3], "train/n2/n2_0.jpg", r"it is no image \(16 bytes\)"),
    ],
)
def test_a_bad_image_is_named(images, workers, good, path, reason):
    source = ImageSource(images.take(good), 3, SMALL, workers=workers)
    message = rf"^Cannot read the image .*{path}: {reason}.*skip_bad_images=True \(--skip-bad-images\)[^\n]*$"
    with pytest.raises(LoopeError, match=message):
        list(source.batches(0))


def test_a_file_that_vanished_is_named(images):
    (images.reader.folder / images.reader.names[0]).unlink()
    with pytest.raises(LoopeError, match=r"Cannot read the image .*n1_0.JPEG: there is no such file"):
        next(ImageSource(images, 3, SMALL, workers=0).batches(0))


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_leaves_bad_images_out_and_counts_them(images, workers):
    source = ImageSource(images, 2, SMALL, workers=workers, skip_bad_images=True)
    assert source.bad_images == 0
    batches = list(source.batches(0))
    good = ImageSource(images.take([0, 2, 4, 5]), 6, SMALL, workers=0)
    expected, labels = next(good.batches(0))
    assert [len(found) for found, _ in batches] == [1, 1, 2]
    assert torch.equal(torch.cat([found for found, _ in batches]), expected)
    assert torch.equal(torch.cat([found for _, found in batches]), labels)
    list(source.batches(1))
    assert source.bad_images == 2  # each once
    assert {path.split("/")[-1]: reason.split(" (")[0] for path, reason in source.bad.items()} == {
        "n1_1.JPEG": "image file is truncated",
        "n2_0.jpg": "it is no image",
    }


def test_the_engine_scores_what_is_left(images):
    """An evaluation sees every image once that can be read; more must not be missing."""
    task = Classification(len(CLASSES))
    source = ImageSource(images, 2, SMALL, workers=0, skip_bad_images=True)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, len(CLASSES)))
    for _ in range(2):  # the second time they are known
        found = evaluate(model, task, source)
        assert found["top1"] in {number / 4 for number in range(5)}
    source.samples += 1
    with pytest.raises(LoopeError, match="the source has 7 and gave 4, 2 of them cannot be read"):
        evaluate(model, task, source)


def test_a_batch_of_bad_images_is_empty(images):
    source = ImageSource(images.take([0, 1, 3, 2]), 1, SMALL, workers=0, skip_bad_images=True)
    assert [tuple(found.shape) for found, _ in source.batches(0)] == [(n, 3, 16, 16) for n in (1, 0, 0, 1)]


@pytest.mark.parametrize("workers", [0, 2])
def test_training_takes_the_next_good_image_instead(images, workers):
    options = {"train": True, "seed": 1, "workers": workers}
    shuffled = images.take([0, 3, 2, 1, 4, 5])  # stand-ins are of the other class
    source = ImageSource(shuffled, 2, SMALL, skip_bad_images=True, **options)
    mended = ImageSource(images.take([0, 2, 2, 4, 4, 5]), 2, SMALL, **options)
    for epoch in range(3):
        ours, theirs = list(source.batches(epoch)), list(mended.batches(epoch))
        assert len(ours) == len(theirs) == 3
        for (found, labels), (expected, wanted) in zip(ours, theirs, strict=True):
            assert torch.equal(found, expected)
            assert torch.equal(labels, wanted)
    assert source.bad_images == 2
    resumed = list(source.batches(2, start=1))
    assert all(torch.equal(again[0], found[0]) for again, found in zip(resumed, ours[1:], strict=True))


def test_a_stand_in_is_augmented_in_its_own_way(images):
    pair = images.take([1, 2])  # the first is bad, the second stands in for it
    source = ImageSource(pair, 2, SMALL, train=True, augment="crop", workers=0, skip_bad_images=True)
    first, second = next(source.batches(0))[0]
    assert not torch.equal(first, second)


@pytest.mark.parametrize("workers", [0, 1])
def test_if_all_images_are_bad_training_says_so(images, workers):
    source = ImageSource(images.take([1, 3]), 2, SMALL, train=True, workers=workers, skip_bad_images=True)
    with pytest.raises(LoopeError, match=r"^None of the 2 images can be read, .*\.(JPEG|jpg) for one\.$"):
        next(source.batches(0))


def test_bad_files_are_named_by_workers_too(tmp_path):
    write_camvid(tmp_path)
    write_image(tmp_path / "camvid/trainannot/001.png", np.zeros((24, 35)))
    for workers in (0, 1):
        source = SegmentationSource(CamVid("train", tmp_path), 4, (16, 24), workers=workers)
        with pytest.raises(LoopeError, match=r"^\S*001\.png is 24x36, but its mask"):
            list(source.batches(0))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["classification", "segmentation"])
def test_workers_leave_stopping_to_the_trainer(images, tmp_path, kind, number):
    def source(workers: int) -> LoadedSource:
        if kind == "classification":
            return ImageSource(images.take([0, 2, 4, 5]), 1, SMALL, workers=workers)
        return SegmentationSource(CamVid("train", write_camvid(tmp_path)), 1, (16, 16), workers=workers)

    expected = list(source(0).batches(0))
    others = set(multiprocessing.active_children())  # of earlier tests
    batches = source(1).batches(0)
    found = [next(batches)]
    (worker,) = set(multiprocessing.active_children()) - others
    os.kill(worker.pid, number)
    assert_equal([*found, *batches], expected)


def test_loading_in_the_trainers_process_does_not_seed_gpus(tmp_path, monkeypatch):
    """`torch.manual_seed` would also seed them, with every sample."""
    source = SegmentationSource(CamVid("train", write_camvid(tmp_path)), 4, (16, 24), train=True, augment=Augment())
    monkeypatch.setattr(torch, "manual_seed", lambda seed: pytest.fail("all devices were seeded"))
    assert len(list(source.batches(0))) == 1
