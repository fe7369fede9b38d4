"""Fingerprints: the same for the same data wherever they lie, another for any change that training would see."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch.utils.data import ConcatDataset, Subset

import loope
from loope.lab.data import fingerprint, load_images
from loope.lab.data.classification import Images, ImageSource, Memory
from loope.lab.data.segmentation import Pairs, SegmentationSource
from loope.lab.data.three_cell import ThreeCellSource
from tests.lab.data.dataset_files import write_folders


@pytest.fixture
def tree(tmp_path) -> Path:
    write_folders(tmp_path / "a" / "imagenet", ["n1", "n2"], {"train": 3, "val": 1})
    return tmp_path / "a"


def of(root: Path) -> dict[str, str]:
    return ImageSource(load_images("imagenet", root), 2, workers=0).fingerprint()


def first(root: Path) -> Path:
    return sorted(root.rglob("train/n1/*"))[0]


def flip(root: Path) -> None:
    """A bit of a file, which keeps its size and its time."""
    path, before = first(root), first(root).stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rename(root: Path) -> None:
    first(root).rename(first(root).with_name(f"aa{first(root).suffix}"))


def relabel(root: Path) -> None:
    for path in (first(root).parent, *root.rglob("val/n1")):
        path.rename(path.with_name("n0"))


def append(root: Path) -> None:
    with first(root).open("ab") as file:
        file.write(b"\0")


@pytest.mark.parametrize("change", [flip, rename, relabel, append])
def test_changes_are_seen(tree, change):
    before = of(tree)
    change(tree)
    assert of(tree) != before
    assert set(before) == {"content"}


def test_a_copy_is_the_same(tree, tmp_path):
    shutil.copytree(tree, tmp_path / "b", copy_function=shutil.copyfile)
    for path in tmp_path.glob("b/**/*"):
        os.utime(path, (1, 1))
    assert of(tmp_path / "b") == of(tree)


@pytest.mark.parametrize("change", [rename, relabel, append])
def test_what_is_too_large_to_read_has_names_sizes_and_times(tree, monkeypatch, change):
    monkeypatch.setattr(fingerprint, "AFFORDABLE", 10)
    before = of(tree)
    assert set(before) == {"names and sizes", "times"}
    os.utime(first(tree), (1, 1))
    assert of(tree)["names and sizes"] == before["names and sizes"]
    assert of(tree)["times"] != before["times"]
    change(tree)
    assert of(tree)["names and sizes"] != before["names and sizes"]


def test_what_cannot_be_read_does_not_stop_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    found = fingerprint.of_files(tmp_path, ["pipe", "folder", "nothing", "\udcff"])
    assert found == fingerprint.of_files(tmp_path, ["pipe", "folder", "nothing", "\udcff"])


def test_pixels_in_memory():
    def images(change: int = 0, place: int = 0) -> Images:
        pixels = torch.arange(24, dtype=torch.uint8)
        pixels[place] += change
        return Images(Memory(["a", "b"], pixels.view(2, 2, 2, 3)), [0, 1], ["train"] * 2, ["x", "y"])

    assert images().fingerprint() == images().fingerprint()
    assert images(1, 13).fingerprint() != images().fingerprint()
    assert images(1, 13).take([0]).fingerprint() == images().take([0]).fingerprint()


def test_three_cell():
    def of(**options) -> dict[str, str]:
        return ThreeCellSource(loope.ThreeCell(**{"size": 20, "grid": 4, "cell": 2, **options}), 4).fingerprint()

    assert of() == of()
    assert len({of(**options)["content"] for options in ({}, {"seed": 1}, {"cell": 3}, {"sampler": "paper"})}) == 4


def test_segmentation(tmp_path):
    def write(root: Path) -> Pairs:
        files = []
        for number in range(4):
            pair = root / "x" / f"{number}.png", root / "xannot" / f"{number}.png"
            for path in pair:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(f"{path.parent.name}{number}".encode())
            files.append(pair)
        return Pairs(files, loope.segmentation.labels.as_labels(2), {0: 0, 1: 1})

    def of(data) -> dict[str, str]:
        return SegmentationSource(data, 1, 4).fingerprint()

    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    assert of(one) == of(other)
    part = Subset(ConcatDataset([one, other]), [1, 6])
    before = of(part)
    other.pairs[0][1].write_bytes(b"not in the part")
    assert of(part) == before
    other.pairs[2][1].write_bytes(b"another mask")
    assert of(part) != before
    assert of([(torch.zeros(3, 4, 4), torch.zeros(4, 4))]) == {}
