"""CIFAR-100 as it is published: read as torchvision reads it, without running what its pickles say."""

import hashlib
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torchvision.datasets as tv

from loope.core.errors import LoopeError
from loope.lab.data import load_images
from loope.lab.data.images.cifar import unpickle
from tests.lab.data.dataset_files import assert_same, pixels, python2_pickle, write_cifar100


def test_cifar100_is_torchvisions(tmp_path, monkeypatch):
    written = write_cifar100(tmp_path, {"train": 130, "test": 110})
    images = load_images("cifar100", tmp_path)
    assert images.classes[7] == "class_7"
    assert len(images.classes) == 100
    for place in range(240):  # red, green and blue planes, as they were written
        planes = written["train"][0][place] if place < 130 else written["test"][0][place - 130]
        assert np.array_equal(pixels(images.reader.read(place)), planes.transpose(1, 2, 0))
    checksums = {
        name: hashlib.md5((tmp_path / "cifar-100-python" / name).read_bytes()).hexdigest()  # noqa: S324
        for name in ("train", "test", "meta")
    }
    monkeypatch.setattr(tv.CIFAR100, "train_list", [["train", checksums["train"]]])
    monkeypatch.setattr(tv.CIFAR100, "test_list", [["test", checksums["test"]]])
    monkeypatch.setattr(tv.CIFAR100, "meta", {**tv.CIFAR100.meta, "md5": checksums["meta"]})
    assert_same(images, "train", tv.CIFAR100(tmp_path, train=True))
    assert_same(images, "test", tv.CIFAR100(tmp_path, train=False))


def test_arrays_in_either_layout_are_read():
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for written in (array, np.asfortranarray(array)):
        for stream in (python2_pickle({"data": written}), pickle.dumps({"data": written}, protocol=4)):
            assert np.array_equal(unpickle(io.BytesIO(stream))["data"].tensor().numpy(), array)


class Harmful:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_a_pickle_that_runs_code_is_refused(tmp_path, name):
    write_cifar100(tmp_path, {"train": 3, "test": 3}, classes=3)
    trap = tmp_path / "trap"
    harmful = pickle.dumps({"data": Harmful(trap), "fine_labels": [], "fine_label_names": []}, protocol=2)
    pickle.loads(harmful)  # noqa: S301
    assert trap.exists()  # it does run
    trap.unlink()
    (tmp_path / "cifar-100-python" / name).write_bytes(harmful)
    with pytest.raises(LoopeError, match=rf"cifar-100-python/{name}: it asks for .*, which .* could run code"):
        load_images("cifar100", tmp_path)
    assert not trap.exists()


@pytest.mark.parametrize(
    "harmful",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nfromfile\n(S'x'\ntR.",
        b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.",
        b"cmultiarray\nfrombuffer\n.",
    ],
)
def test_names_that_are_not_needed_are_refused(harmful):
    with pytest.raises(LoopeError, match="could run code"):
        unpickle(io.BytesIO(harmful))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train", b""),
        ("train", b"not a pickle"),
        ("train", python2_pickle({"fine_labels": [0]})),
        ("test", python2_pickle({"data": np.zeros((1, 3071), np.uint8), "fine_labels": [0]})),
        ("test", python2_pickle({"data": np.zeros((1, 3072), np.float32), "fine_labels": [0]})),
        ("test", python2_pickle({"data": np.zeros((2, 3072), np.uint8), "fine_labels": [0]})),
        ("test", python2_pickle({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [5]})),
        ("meta", None),
    ],
)
def test_damaged_cifar_files_are_named(tmp_path, name, content):
    write_cifar100(tmp_path, {"train": 3, "test": 3}, classes=3)
    path = tmp_path / "cifar-100-python" / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(LoopeError, match=rf"cifar-100-python/{name}.*download it again"):
        load_images("cifar100", tmp_path)
