"""CIFAR-100 as it is published: read by torchvision, and a pickle with another checksum is never run."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torchvision.datasets as tv

from loope.core.errors import LoopeError
from loope.lab.data import load_images
from tests.lab.data.dataset_files import assert_same, pixels, publish_cifar100, write_cifar100


def test_cifar100_is_torchvisions(tmp_path, monkeypatch):
    written = write_cifar100(tmp_path, {"train": 130, "test": 110})
    publish_cifar100(monkeypatch, tmp_path)
    images = load_images("cifar100", tmp_path)
    assert images.classes[7] == "class_7"
    assert len(images.classes) == 100
    for place in range(240):  # red, green and blue planes, as they were written
        planes = written["train"][0][place] if place < 130 else written["test"][0][place - 130]
        assert np.array_equal(pixels(images.reader.read(place)), planes.transpose(1, 2, 0))
    assert_same(images, "train", tv.CIFAR100(tmp_path, train=True))
    assert_same(images, "test", tv.CIFAR100(tmp_path, train=False))


class Harmful:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_a_pickle_that_runs_code_is_refused(tmp_path, monkeypatch, name):
    write_cifar100(tmp_path, {"train": 3, "test": 3}, classes=3)
    publish_cifar100(monkeypatch, tmp_path)
    trap = tmp_path / "trap"
    harmful = pickle.dumps({"data": Harmful(trap), "fine_labels": [], "fine_label_names": []}, protocol=2)
    pickle.loads(harmful)  # noqa: S301
    assert trap.exists()  # it does run
    trap.unlink()
    (tmp_path / "cifar-100-python" / name).write_bytes(harmful)
    with pytest.raises(LoopeError, match=rf"cifar-100-python/{name} must be as published.*download it again"):
        load_images("cifar100", tmp_path)
    assert not trap.exists()


@pytest.mark.parametrize("name", ["train", "test", "meta"])
@pytest.mark.parametrize("change", [lambda whole: whole[:-1], lambda whole: whole + b"\0", lambda whole: None])
def test_damaged_cifar_files_are_named_and_not_unpickled(tmp_path, monkeypatch, name, change):
    write_cifar100(tmp_path, {"train": 3, "test": 3}, classes=3)
    publish_cifar100(monkeypatch, tmp_path)
    monkeypatch.setattr("pickle.load", lambda *_, **__: pytest.fail("unpickled"))
    path = tmp_path / "cifar-100-python" / name
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(LoopeError, match=rf"^\S*cifar-100-python/{name} must be as published.*download it again"):
        load_images("cifar100", tmp_path)


def test_the_checksums_are_the_published_ones(tmp_path):
    """Without a test's own checksums, files in the right format but of other content are refused."""
    write_cifar100(tmp_path, {"train": 3, "test": 3}, classes=3)
    with pytest.raises(LoopeError, match=r"cifar-100-python/train, .*/test, .*/meta must be as published"):
        load_images("cifar100", tmp_path)


def test_a_file_that_cannot_be_opened_is_an_error_of_ours(tmp_path, monkeypatch):
    write_cifar100(tmp_path, {"train": 3, "test": 3}, classes=3)

    def refuse(*_):
        raise PermissionError("Permission denied: 'meta'")

    monkeypatch.setattr("torchvision.datasets.utils.calculate_md5", refuse)
    with pytest.raises(LoopeError, match=r"Cannot read .*cifar-100-python: .*'meta'.*download it again"):
        load_images("cifar100", tmp_path)
