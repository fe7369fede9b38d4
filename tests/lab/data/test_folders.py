"""What lies in data folders besides images: links in circles, links across parts, pipes."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loope.core.errors import LoopeError
from loope.lab.data import load_images
from loope.lab.data.folders import read_class_list
from loope.lab.data.segmentation import CamVid
from tests.lab.data.dataset_files import picture, publish_cifar100, write_cifar100, write_folders, write_pets


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two classes, three training and two test images of each."""
    write_folders(tmp_path / "imagenet", ["n1", "n2"], {"train": 3, "val": 2})
    return tmp_path / "imagenet"


def parts(folder: Path) -> dict[str, list[str]]:
    found = load_images("imagenet", folder.parent)
    names = [Path(name).name for name in found.reader.names]
    return {
        part: [name for name, given in zip(names, found.official, strict=True) if given == part]
        for part in ("train", "test")
    }


def test_links_in_circles_and_across_parts_add_nothing(folder):
    before = parts(folder)
    (folder / "train/n1/again").symlink_to(folder / "train/n1")
    (folder / "train/n1/all").symlink_to(folder)
    (folder / "train/n2/test").symlink_to(folder / "val/n2")
    (folder / "train/n1/stolen.JPEG").symlink_to(folder / "val/n1/n1_0.JPEG")
    (folder / "train/n1/nowhere.JPEG").symlink_to(folder / "none.JPEG")
    os.link(folder / "train/n2/n2_0.JPEG", folder / "train/n2/twin.JPEG")
    assert parts(folder) == before


def test_a_file_of_both_parts_by_hard_link_counts_once(folder):
    os.link(folder / "val/n1/n1_0.JPEG", folder / "train/n1/other.JPEG")
    found = parts(folder)
    assert len(found["train"]) + len(found["test"]) == 10


def test_classes_and_images_may_be_links_to_elsewhere(folder, tmp_path):
    before = parts(folder)
    (folder / "train/n1").rename(tmp_path / "n1")
    (folder / "train/n1").symlink_to(tmp_path / "n1")
    (folder / "val/n2/n2_0.JPEG").rename(tmp_path / "store.JPEG")
    (folder / "val/n2/n2_0.JPEG").symlink_to(tmp_path / "store.JPEG")
    assert parts(folder) == before


def test_a_class_that_is_a_link_into_the_other_part_has_no_images(folder):
    for path in (folder / "train/n1").iterdir():
        path.unlink()
    (folder / "train/n1").rmdir()
    (folder / "train/n1").symlink_to(folder / "val/n1")
    with pytest.raises(LoopeError, match="train/n1 must hold images"):
        parts(folder)


def test_images_in_nested_folders_are_found_in_the_order_of_torchvision(folder):
    from torchvision.datasets import ImageFolder

    for name in ("b/x.png", "b.png", "B/y.jpg", "a/c/z.webp", "text.txt"):
        path = folder / "train/n1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".txt":
            picture(7).save(path)
    found = load_images("imagenet", folder.parent)
    expected = [str(Path(path).relative_to(folder)) for path, _ in ImageFolder(folder / "train").samples]
    assert list(found.reader.names[: len(expected)]) == expected


def test_pipes_are_no_images(folder, tmp_path):
    before = parts(folder)
    os.mkfifo(folder / "train/n1/pipe.jpg")
    assert parts(folder) == before
    image = folder / "train/n1/n1_0.JPEG"
    found = load_images("imagenet", folder.parent)
    image.unlink()
    os.mkfifo(image)
    with pytest.raises(LoopeError, match=r"n1_0\.JPEG: there is no such file"):
        found.reader.read(0)


def test_pipes_in_the_place_of_lists_and_archives(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "classes.txt")
    with pytest.raises(LoopeError, match=r"classes\.txt must be a text file"):
        read_class_list(tmp_path / "classes.txt")
    write_pets(tmp_path)
    (tmp_path / "oxford-iiit-pet/annotations/test.txt").unlink()
    os.mkfifo(tmp_path / "oxford-iiit-pet/annotations/test.txt")
    with pytest.raises(LoopeError, match=r"test\.txt must be a text file"):
        load_images("pets", tmp_path)
    write_cifar100(tmp_path, {"train": 2, "test": 2})
    publish_cifar100(monkeypatch, tmp_path)
    (tmp_path / "cifar-100-python/meta").unlink()
    os.mkfifo(tmp_path / "cifar-100-python/meta")
    with pytest.raises(LoopeError, match="cifar-100-python/meta must be as published"):
        load_images("cifar100", tmp_path)


def test_links_and_pipes_among_images_with_masks(tmp_path):
    images, masks = tmp_path / "camvid/train", tmp_path / "camvid/trainannot"
    for place in (images, masks):
        place.mkdir(parents=True)
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(images / "a.png")
    Image.fromarray(np.zeros((4, 6), np.uint8)).save(masks / "a.png")
    (images / "b.png").symlink_to(images / "a.png")
    (images / "self").symlink_to(images)
    os.mkfifo(images / "c.png")
    assert [path.name for path, _ in CamVid("train", tmp_path).pairs] == ["a.png"]
    (masks / "a.png").unlink()
    os.mkfifo(masks / "a.png")
    with pytest.raises(LoopeError, match="1 of 1 images have no mask"):
        CamVid("train", tmp_path)
