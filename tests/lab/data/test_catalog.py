"""Data sets by name: read as torchvision reads them, downloaded by its code, and explained when missing."""

import hashlib
import shutil
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torchvision.datasets as tv

from loope.core.errors import LoopeError
from loope.lab.data import load_images
from tests.lab.data.dataset_files import assert_same, publish_cifar100, write_cifar100, write_folders, write_pets
from tests.weights import data

WNIDS = [f"n{number:08}" for number in range(100)]


def test_pets_are_torchvisions(tmp_path):
    write_pets(tmp_path)
    images = load_images("pets", tmp_path)
    assert images.classes == ["Abyssinian", "Great Pyrenees"]
    assert_same(images, "train", tv.OxfordIIITPet(tmp_path, "trainval"))
    assert_same(images, "test", tv.OxfordIIITPet(tmp_path, "test"))


def test_the_real_pets(monkeypatch):
    monkeypatch.setenv("LOOPE_DATA", str(data("oxford-iiit-pet").parent))
    images = load_images("pets")
    assert len(images.classes) == 37
    assert (images.official.count("train"), images.official.count("test")) == (1480, 740)
    picture = images.reader.read(0)
    assert (picture.size, picture.mode) == ((224, 224), "RGB")


def test_more_test_images_of_pets_from_a_second_folder(tmp_path):
    write_pets(tmp_path)
    assert load_images("pets", tmp_path, more=True).reader.names == load_images("pets", tmp_path).reader.names
    second = tmp_path / "oxford-iiit-pet-more"
    write_pets(second, each=20)  # its test images have other numbers; only these are read
    (second / "oxford-iiit-pet/annotations/trainval.txt").write_text("")
    images = load_images("pets", tmp_path, more=True)
    first = load_images("pets", tmp_path)
    assert_same(images, "train", tv.OxfordIIITPet(tmp_path, "trainval"))
    tests = [each for root in (tmp_path, second) for each in tv.OxfordIIITPet(root, "test")]
    assert_same(images, "test", tests)
    assert (len(images) - len(first), images.classes) == (20, first.classes)
    assert len(load_images("pets", tmp_path)) == len(first)


def test_a_second_folder_of_pets_must_fit(tmp_path):
    write_pets(tmp_path)
    second = tmp_path / "oxford-iiit-pet-more"
    write_pets(second)
    with pytest.raises(LoopeError, match="both have"):
        load_images("pets", tmp_path, more=True)
    shutil.rmtree(second)
    write_pets(second, breeds=("Abyssinian", "great_pyrenees", "pug"), each=20)
    with pytest.raises(LoopeError, match="2 classes"):
        load_images("pets", tmp_path, more=True)
    (second / "oxford-iiit-pet/annotations/test.txt").unlink()
    with pytest.raises(LoopeError, match="not whole"):
        load_images("pets", tmp_path, more=True)


def test_all_real_test_images_of_pets(monkeypatch):
    monkeypatch.setenv("LOOPE_DATA", str(data("oxford-iiit-pet-more").parent))
    images = load_images("pets", more=True)
    assert (images.official.count("train"), images.official.count("test"), len(images.classes)) == (1480, 3669, 37)
    assert images.reader.read(len(images) - 1).mode == "RGB"


def test_cifar100_as_folders():
    images = load_images("cifar100", data("cifar100").parent)
    assert (len(images), len(images.classes)) == (6000, 100)
    assert_same(images.take(range(50)), "train", [tv.ImageFolder(data("cifar100") / "train")[i] for i in range(50)])
    assert images.classes[images.labels[4017]] == images.reader.names[4017].split("/")[1]


def test_imagenet_is_a_folder_for_each_class(tmp_path):
    write_folders(tmp_path / "imagenet", ["n02", "n01", "n10"], {"train": 3, "val": 2})
    images = load_images("imagenet", tmp_path)
    assert images.classes == ["n01", "n02", "n10"]
    assert_same(images, "train", tv.ImageFolder(tmp_path / "imagenet" / "train"))
    assert_same(images, "test", tv.ImageFolder(tmp_path / "imagenet" / "val"))


def test_imagenet100_is_a_folder_or_a_list(tmp_path):
    write_folders(tmp_path / "imagenet", [*WNIDS, "n2", "n3"], {"train": 1, "val": 1})
    chosen = tmp_path / "chosen.txt"
    chosen.write_text("\n".join(reversed([*WNIDS[1:], "n3"])))
    listed = load_images("imagenet100", tmp_path, classes=chosen)
    assert listed.classes == sorted([*WNIDS[1:], "n3"])
    assert len(listed) == 200
    assert listed.reader.names[0] == f"train/{WNIDS[1]}/{WNIDS[1]}_0.JPEG"
    assert listed.labels == [*range(100), *range(100)]
    with pytest.raises(LoopeError, match=r"is not in .*155 GB.*imagenet100 with.*classes=FILE.*does not say which 100"):
        load_images("imagenet100", tmp_path)
    write_folders(tmp_path / "imagenet100", WNIDS, {"train": 1, "val": 1})
    assert load_images("imagenet100", tmp_path).classes == WNIDS
    chosen.write_text("\n".join(WNIDS[:99]))
    with pytest.raises(LoopeError, match="has 100 classes, got 99"):
        load_images("imagenet100", tmp_path, classes=chosen)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n1\nn02", "Unknown class 'n02'; use one of: n2, n1"),
        ("", "must name each class once.*it is empty"),
        ("n1\nn2\nn1", r"names \['n1'\] twice"),
        (None, "Cannot read the class list"),
    ],
)
def test_class_lists_that_are_none(tmp_path, text, message):
    write_folders(tmp_path / "imagenet", ["n1", "n2"], {"train": 1, "val": 1})
    chosen = tmp_path / "chosen.txt"
    if text is not None:
        chosen.write_text(text)
    with pytest.raises(LoopeError, match=message):
        load_images("imagenet100", tmp_path, classes=chosen)


def test_a_class_list_goes_with_imagenet100(tmp_path):
    chosen = tmp_path / "chosen.txt"
    chosen.write_text("\n".join(WNIDS))
    with pytest.raises(LoopeError, match="goes with 'imagenet100', got one for 'pets'"):
        load_images("pets", tmp_path, classes=chosen)
    with pytest.raises(LoopeError, match=r"ImageNet-1k .* is not in .*155 GB"):
        load_images("imagenet100", tmp_path, classes=chosen)


@pytest.mark.parametrize(
    ("name", "mentioned"),
    [
        ("pets", ["0.8 GB", "https://www.robots.ox.ac.uk/~vgg/data/pets", "{}/oxford-iiit-pet with", "--download"]),
        (
            "cifar100",
            ["169 MB", "https://www.cs.toronto.edu/~kriz/cifar.html", "{}/cifar-100-python with", "--download"],
        ),
        ("imagenet", ["155 GB", "https://image-net.org/download", "{}/imagenet with", "registration"]),
        ("imagenet100", ["15 GB", "https://image-net.org/download", "{}/imagenet100 with", "--classes FILE"]),
    ],
)
def test_missing_data_says_what_to_get_and_where_to_put_it(tmp_path, monkeypatch, name, mentioned):
    with pytest.raises(LoopeError) as error:
        load_images(name, tmp_path)
    for part in ("is not in", *mentioned):
        assert part.format(tmp_path) in str(error.value)
    assert ("--download" in str(error.value)) == (name in ("pets", "cifar100"))
    monkeypatch.delenv("LOOPE_DATA", raising=False)
    with pytest.raises(LoopeError, match=r"give root= \(--data\) or set LOOPE_DATA. Download .* GB|MB"):
        load_images(name)


@pytest.mark.parametrize("name", ["imagenet", "imagenet100"])
def test_what_cannot_be_downloaded_says_so(tmp_path, name):
    with pytest.raises(LoopeError, match=r"cannot be downloaded by a program.*registration"):
        load_images(name, tmp_path, download=True)


def test_an_unknown_data_set():
    with pytest.raises(LoopeError, match="Unknown data set 'imagnet100'; use one of: imagenet100, imagenet"):
        load_images("imagnet100")


def test_folders_that_are_not_whole(tmp_path):
    folder = tmp_path / "imagenet"
    (folder / "train").mkdir(parents=True)
    with pytest.raises(LoopeError, match=r"must hold train/CLASS/\*\.jpg.*Couldn't find any class folder"):
        load_images("imagenet", tmp_path)
    write_folders(folder, ["n1"], {"val": 1})
    (folder / "train" / "n1").mkdir()
    with pytest.raises(LoopeError, match=r"n1 must hold images.*it has none"):
        load_images("imagenet", tmp_path)
    (folder / "train" / "n2").mkdir()
    with pytest.raises(LoopeError, match=r"same class folders, but only one has \['n2'\]"):
        load_images("imagenet", tmp_path)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("trainval", None, "trainval.txt.*download it again"),
        ("test", "Abyssinian_1 1", "are not whole.*download it again"),
        ("test", "Abyssinian_1 3 1 1", r"must number the 2 classes of trainval.txt from 1 up, got \[1, 2, 3\]"),
        ("trainval", "", r"must number the 0 classes"),
    ],
)
def test_damaged_lists_of_pets(tmp_path, part, text, message):
    write_pets(tmp_path)
    path = tmp_path / "oxford-iiit-pet" / "annotations" / f"{part}.txt"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(LoopeError, match=message):
        load_images("pets", tmp_path)


@pytest.fixture
def server(tmp_path):
    """A web server for the files in `served`."""
    (tmp_path / "served").mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "served"))) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def archive(path: Path, content: Path) -> str:
    """Pack a folder, and return the archive's checksum."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(content, arcname=content.name)
    return hashlib.md5(path.read_bytes()).hexdigest()  # noqa: S324


def test_cifar100_is_downloaded_on_request(tmp_path, server, monkeypatch):
    write_cifar100(tmp_path / "made", {"train": 4, "test": 2})
    checksum = archive(tmp_path / "served" / "c.tar.gz", tmp_path / "made" / "cifar-100-python")
    monkeypatch.setattr(tv.CIFAR100, "url", f"{server}/c.tar.gz")
    publish_cifar100(monkeypatch, tmp_path / "made")
    root = tmp_path / "data"
    with pytest.raises(LoopeError, match="is not in"):
        load_images("cifar100", root)
    assert not root.exists()
    with pytest.raises(LoopeError, match=r"download of CIFAR-100 .* failed: .*corrupted.*169 MB"):  # another checksum
        load_images("cifar100", root, download=True)
    assert not (root / "cifar-100-python").exists()
    monkeypatch.setattr(tv.CIFAR100, "tgz_md5", checksum)
    assert len(load_images("cifar100", root, download=True)) == 6
    (tmp_path / "served" / "c.tar.gz").unlink()
    assert len(load_images("cifar100", root, download=True)) == 6  # already downloaded


def test_pets_are_downloaded_on_request(tmp_path, server, monkeypatch):
    write_pets(tmp_path / "made")
    made = tmp_path / "made" / "oxford-iiit-pet"
    resources = [
        (f"{server}/{part}.tar.gz", archive(tmp_path / "served" / f"{part}.tar.gz", made / part))
        for part in ("images", "annotations")
    ]
    monkeypatch.setattr(tv.OxfordIIITPet, "_RESOURCES", resources)
    assert len(load_images("pets", tmp_path / "data", download=True)) == 30
    monkeypatch.setattr(tv.OxfordIIITPet, "_RESOURCES", [(f"{server}/none.tar.gz", "0")])
    with pytest.raises(LoopeError, match=r"download of Oxford-IIIT Pet .* failed: .*404.*0\.8 GB"):
        load_images("pets", tmp_path / "other", download=True)
