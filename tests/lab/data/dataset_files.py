"""Tiny data sets, written to disk as the real ones lie there."""

import hashlib
import io
import pickle
import struct
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image
from torchvision.datasets import CIFAR100


def picture(seed: int, width: int = 40, height: int = 30) -> Image.Image:
    """Smooth enough to survive JPEG, different for each seed."""
    small = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BILINEAR)


def write_folders(folder: Path, classes: list[str], counts: dict[str, int], ending: str = "JPEG") -> None:
    """`folder/PART/CLASS/*.JPEG`, as ImageNet: `counts` images of each class in each part."""
    for part, count in counts.items():
        for label, name in enumerate(classes):
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(count):
                picture(1000 * label + number + 500 * (part != "train")).save(place / f"{name}_{number}.{ending}")


def write_pets(root: Path, breeds: tuple[str, ...] = ("Abyssinian", "great_pyrenees"), each: int = 10) -> None:
    """`root/oxford-iiit-pet`: `each` images of a breed in trainval.txt, half as many in test.txt."""
    folder = root / "oxford-iiit-pet"
    (folder / "annotations").mkdir(parents=True)
    (folder / "images").mkdir()
    for part, count, first in (("trainval", each, 0), ("test", each // 2, each)):
        lines = []
        for label, breed in enumerate(breeds, start=1):
            for number in range(first, first + count):
                picture(1000 * label + number, 40 + number, 50 - number).save(
                    folder / "images" / f"{breed}_{number}.jpg"
                )
                lines.append(f"{breed}_{number} {label} {1 if breed[0].isupper() else 2} 1\n")
        (folder / "annotations" / f"{part}.txt").write_text("".join(lines))


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("RGB"))


def assert_same(images, part, expected) -> None:
    """The images of an official part are those of a torchvision data set."""
    places = [place for place, official in enumerate(images.official) if official == part]
    assert len(places) == len(expected) > 0
    for place, (picture, label) in zip(places, expected, strict=True):
        assert images.labels[place] == label
        assert np.array_equal(pixels(images.reader.read(place)), pixels(picture))


def write_image(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def photo(seed: int, size=(24, 34)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3))


def write_cityscapes(
    root: Path, names=("bochum_000001_000002", "aachen_000000_000019", "aachen_000001_000019")
) -> Path:
    """The published layout: leftImg8bit/SPLIT/CITY and gtFine/SPLIT/CITY."""
    ids = np.arange(34, dtype=np.uint8)[None].repeat(24, 0)
    for number, name in enumerate(names):
        city = name.partition("_")[0]
        write_image(root / f"cityscapes/leftImg8bit/train/{city}/{name}_leftImg8bit.png", photo(number))
        for kind in ("labelIds", "instanceIds", "color"):
            write_image(root / f"cityscapes/gtFine/train/{city}/{name}_gtFine_{kind}.png", np.roll(ids, number, 1))
        (root / f"cityscapes/gtFine/train/{city}/{name}_gtFine_polygons.json").write_text("{}")
    return root


def write_camvid(root: Path, count: int = 7, size=(24, 36)) -> Path:
    for number in range(count):
        write_image(root / f"camvid/train/{number:03}.png", photo(number, size))
        rows = (np.arange(size[0]) * 12 // size[0] + number) % 12
        write_image(root / f"camvid/trainannot/{number:03}.png", rows[:, None].repeat(size[1], 1))
    return root


class Python2Pickler(pickle._Pickler):
    """Writes text, bytes and flags as Python 2 and its NumPy did, which wrote the files of CIFAR-100."""

    dispatch: ClassVar[dict] = dict(pickle._Pickler.dispatch)

    def save_string(self, text: str | bytes) -> None:
        content = text if isinstance(text, bytes) else text.encode()
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(text)

    def save_flag(self, flag: bool) -> None:
        self.save_long(int(flag))

    dispatch[str] = dispatch[bytes] = save_string
    dispatch[bool] = save_flag


def python2_pickle(value: object) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def write_cifar100(root: Path, counts: dict[str, int], classes: int = 100) -> dict[str, tuple[np.ndarray, list[int]]]:
    """`root/cifar-100-python`, and what is in it: `(n, 3, 32, 32)` uint8 and the classes, for "train" and "test"."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    written = {}
    for part, count in counts.items():
        data = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = [number % classes for number in range(count)]
        content = {
            "filenames": [f"{part}_{number}.png" for number in range(count)],
            "batch_label": f"{part}ing batch 1 of 1",
            "fine_labels": labels,
            "coarse_labels": [label // 5 for label in labels],
            "data": data,
        }
        (folder / part).write_bytes(python2_pickle(content))
        written[part] = data.reshape(-1, 3, 32, 32), labels
    names = [f"class_{number}" for number in range(classes)]
    (folder / "meta").write_bytes(python2_pickle({"fine_label_names": names, "coarse_label_names": ["all"]}))
    return written


def publish_cifar100(monkeypatch, root: Path) -> None:
    """Let torchvision take the files below `root` for the published ones."""
    folder = root / "cifar-100-python"
    checksum = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.iterdir()}  # noqa: S324
    monkeypatch.setattr(CIFAR100, "train_list", [["train", checksum["train"]]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", checksum["test"]]])
    monkeypatch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": checksum["meta"]})
