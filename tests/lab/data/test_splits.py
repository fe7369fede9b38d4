"""Parts of a data set: apart, complete, in each class alike, and the same for the same seed."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loope.core.errors import LoopeError
from loope.lab.data import load_images
from loope.lab.data.classification import Files, Images
from loope.lab.data.splits import PARTS, apportion, assign, read_split
from tests.lab.data.dataset_files import write_pets
from tests.weights import data

PINNED = [6, 11], [7, 14]


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Images:
    root = tmp_path_factory.mktemp("pets")
    write_pets(root, ("Abyssinian", "beagle", "Bengal"), each=20)
    return load_images("pets", root)


def names(images: Images) -> list[str]:
    return list(images.reader.names)


@pytest.mark.parametrize("how", ["80-10-10", "official", "60-20-20"])
def test_parts_share_nothing_and_leave_nothing_out(pets, how):
    parts = pets.split(how, seed=3)
    assert tuple(parts) == PARTS
    together = [name for part in parts.values() for name in names(part)]
    assert sorted(together) == sorted(names(pets))
    assert len(set(together)) == len(together) == 90
    label_of = dict(zip(names(pets), pets.labels, strict=True))
    for part in parts.values():
        assert part.labels == [label_of[name] for name in names(part)]
        assert part.classes == pets.classes


def test_a_digest_tells_which_images_these_are(pets, tmp_path):
    write_pets(tmp_path, ("Abyssinian", "beagle", "Bengal"), each=20)
    elsewhere = load_images("pets", tmp_path)
    assert elsewhere.reader.folder != pets.reader.folder
    assert elsewhere.digest() == pets.digest()
    relabelled = replace(pets, labels=[*pets.labels[:-1], 0])
    assert relabelled.labels != pets.labels
    others = (pets.take(range(89)), pets.take([1, 0, *range(2, 90)]), relabelled)
    assert len({each.digest() for each in (pets, *others)}) == 4


def test_sizes_are_the_shares_in_every_class(pets):
    parts = pets.split("80-10-10")
    assert {part: Counter(images.labels) for part, images in parts.items()} == {
        "train": dict.fromkeys(range(3), 24),
        "val": dict.fromkeys(range(3), 3),
        "test": dict.fromkeys(range(3), 3),
    }
    official = pets.split("official")
    assert {part: Counter(images.labels) for part, images in official.items()} == {
        "train": dict.fromkeys(range(3), 18),
        "val": dict.fromkeys(range(3), 2),
        "test": dict.fromkeys(range(3), 10),
    }


def test_the_official_test_part_is_the_published_one(pets):
    published = [name for name, part in zip(names(pets), pets.official, strict=True) if part == "test"]
    for seed in (0, 1):
        assert names(pets.split("official", seed)["test"]) == published
    assert names(pets.split("official", 0)["val"]) != names(pets.split("official", 1)["val"])


def test_the_seed_decides_and_the_order_of_the_listing_does_not(pets):
    for how in ("80-10-10", "official"):
        assert names(pets.split(how, 5)["val"]) == names(pets.split(how, 5)["val"])
        assert names(pets.split(how, 5)["val"]) != names(pets.split(how, 6)["val"])
        backwards = pets.take(range(len(pets) - 1, -1, -1))
        for part in PARTS:
            assert sorted(names(backwards.split(how, 5)[part])) == sorted(names(pets.split(how, 5)[part]))


def test_parts_never_change():
    """Published results rest on these: another version must draw the same."""
    listed = [f"images/cat_{number}.jpg" for number in range(10)] + [f"images/dog_{number}.jpg" for number in range(10)]
    parts = assign("80-10-10", 0, listed, [0] * 10 + [1] * 10, ["train"] * 20)
    assert (parts["val"], parts["test"]) == PINNED


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.sampled_from([(80, 10, 10), (34, 33, 33), (1, 1, 98)]))
def test_every_run_gets_its_share(sizes, shares):
    dealt = apportion(range(sum(sizes)), shares)
    assert sorted(place for part in dealt.values() for place in part) == list(range(sum(sizes)))
    first = 0
    for size in sizes:
        for part, share in zip(PARTS, shares, strict=True):
            count = sum(first <= place < first + size for place in dealt[part])
            assert abs(count - size * share / 100) <= 2
        first += size
    for part, share in zip(PARTS, shares, strict=True):
        assert abs(len(dealt[part]) - sum(sizes) * share / 100) < 1


@pytest.mark.parametrize(
    ("name", "official", "eighty"),
    [("pets", (1332, 148, 740), (1776, 222, 222)), ("cifar100", (3600, 400, 2000), (4800, 600, 600))],
)
def test_real_data_is_split_in_every_class_alike(name, official, eighty):
    folder = data({"pets": "oxford-iiit-pet"}.get(name, name))
    images = load_images(name, folder.parent)
    for how, sizes in (("official", official), ("80-10-10", eighty)):
        parts = images.split(how)
        assert tuple(map(len, parts.values())) == sizes
        for part in parts.values():
            assert set(Counter(part.labels).values()) == {len(part) // len(images.classes)}


@pytest.mark.parametrize("bad", ["80-10", "80-10-20", "90-10-0", "80/10/10", "0.8-0.1-0.1", "", "officially", None, 80])
def test_splits_that_are_none(pets, bad):
    with pytest.raises(LoopeError, match=r"`split` must be 'official' or three percentages.*use '80-10-10'"):
        pets.split(bad)
    assert read_split("official") is None


def test_seeds_that_are_none(pets):
    with pytest.raises(LoopeError, match="`seed` must be a whole number from 0 up, got -1"):
        pets.split(seed=-1)


def test_too_few_images_for_a_part(tmp_path):
    few = Images(Files(tmp_path, ["a.jpg", "b.jpg"]), [0, 1], ["train", "train"], ["a", "b"])
    with pytest.raises(LoopeError, match="leaves no image for 'val' of 2"):
        few.split("80-10-10")
    with pytest.raises(LoopeError, match="leaves no image for"):
        few.split("official")
