"""Cityscapes and CamVid, their augmentation and their batches."""

import multiprocessing
import os
import signal
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import loope
from loope.core.grid import Grid
from loope.lab.data.segmentation import Augment, CamVid, Cityscapes, SegmentationSource
from loope.lab.data.segmentation.augment import Transform
from loope.segmentation.labels import VOID
from tests.weights import data

# cityscapesScripts, helpers/labels.py: label id, train id. All others are void.
TRAIN_IDS = {
    7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11, 25: 12, 26: 13, 27: 14, 28: 15,
    31: 16, 32: 17, 33: 18,
}  # fmt: skip


def write(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def photo(seed: int, size=(24, 34)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3))


def cityscapes_tree(root: Path, names=("bochum_000001_000002", "aachen_000000_000019", "aachen_000001_000019")) -> Path:
    """The published layout: leftImg8bit/SPLIT/CITY and gtFine/SPLIT/CITY."""
    ids = np.arange(34, dtype=np.uint8)[None].repeat(24, 0)
    for number, name in enumerate(names):
        city = name.partition("_")[0]
        write(root / f"cityscapes/leftImg8bit/train/{city}/{name}_leftImg8bit.png", photo(number))
        for kind in ("labelIds", "instanceIds", "color"):
            write(root / f"cityscapes/gtFine/train/{city}/{name}_gtFine_{kind}.png", np.roll(ids, number, 1))
        (root / f"cityscapes/gtFine/train/{city}/{name}_gtFine_polygons.json").write_text("{}")
    return root


def camvid_tree(root: Path, count: int = 7, size=(24, 36)) -> Path:
    for number in range(count):
        write(root / f"camvid/train/{number:03}.png", photo(number, size))
        rows = (np.arange(size[0]) * 12 // size[0] + number) % 12
        write(root / f"camvid/trainannot/{number:03}.png", rows[:, None].repeat(size[1], 1))
    return root


@pytest.mark.parametrize("reverse", [False, True])
def test_cityscapes_as_it_is_unpacked(tmp_path, monkeypatch, reverse):
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listed(path), reverse=reverse))  # file systems differ
    found = Cityscapes("train", cityscapes_tree(tmp_path))
    assert len(found) == 3
    assert [path.name[:20] for path, _ in found.pairs] == [
        "aachen_000000_000019", "aachen_000001_000019", "bochum_000001_000002",
    ]  # fmt: skip
    image, mask = found[2]  # bochum, which was written first
    assert torch.equal(image, torch.from_numpy(photo(0)).permute(2, 0, 1).to(torch.uint8))
    assert mask.shape == (24, 34)
    assert mask[0].tolist() == [TRAIN_IDS.get(value, VOID) for value in range(34)]
    assert len(found.labels) == 19
    assert found.labels.names[:3] + found.labels.names[-1:] == ("road", "sidewalk", "building", "bicycle")
    assert found.labels.colours[13] == (0, 0, 142)


def test_camvid(tmp_path):
    found = CamVid("train", camvid_tree(tmp_path))
    assert len(found) == 7
    image, mask = found[0]
    assert torch.equal(image, torch.from_numpy(photo(0, (24, 36))).permute(2, 0, 1).to(torch.uint8))
    assert mask[:, 5].tolist() == [row // 2 if row < 22 else VOID for row in range(24)]
    assert found.labels.names[3] == "road"


def test_the_real_camvid():
    root = data("camvid").parent
    sizes = {split: CamVid(split, root) for split in ("train", "val", "test")}
    assert {split: len(each) for split, each in sizes.items()} == {"train": 367, "val": 101, "test": 233}
    image, mask = sizes["val"][0]
    assert image.shape == (3, 360, 480)
    assert set(mask.unique().tolist()) <= {*range(11), VOID}
    assert (mask[-40:] == 3).double().mean() > 0.5  # what lies before the car is road


def test_missing_data_say_what_to_do(tmp_path, monkeypatch):
    for cls, how in ((CamVid, r"Download about 0\.2 GB .*camvid/train"), (Cityscapes, r"leftImg8bit.*\.zip \(11 GB\)")):
        with pytest.raises(loope.LoopeError, match=rf"is not in {tmp_path}/{cls.__name__.lower()}\. .*{how}"):
            cls("train", tmp_path)
        monkeypatch.setenv("LOOPE_DATA", str(tmp_path / "elsewhere"))
        with pytest.raises(loope.LoopeError, match=f"is not in {tmp_path}/elsewhere"):
            cls("train")
        monkeypatch.delenv("LOOPE_DATA")
        with pytest.raises(loope.LoopeError, match=rf"give root= or set LOOPE_DATA\. .*{how}"):
            cls("train")
        with pytest.raises(loope.LoopeError, match="Unknown split 'all'; use one of"):
            cls("all", tmp_path)
    (tmp_path / "camvid/train").mkdir(parents=True)
    (tmp_path / "camvid/trainannot").mkdir()
    with pytest.raises(loope.LoopeError, match=r"There is no image in .*camvid/train"):
        CamVid("train", tmp_path)


def test_masks_with_unknown_values(tmp_path):
    camvid_tree(tmp_path)
    write(tmp_path / "camvid/trainannot/003.png", np.full((24, 36), 12))
    found = CamVid("train", tmp_path)
    with pytest.raises(
        loope.LoopeError, match=r"003\.png has the values \[12\], which CamVid does not know; .* 0 to 11"
    ):
        found[3]
    cityscapes_tree(tmp_path)
    mask = next(tmp_path.glob("cityscapes/gtFine/train/bochum/*labelIds.png"))
    write(mask, np.full((24, 34), 77))
    with pytest.raises(loope.LoopeError, match=r"has the values \[77\], which Cityscapes does not know; .* 0 to 33"):
        Cityscapes("train", tmp_path)[2]


def test_images_and_masks_that_do_not_go_together(tmp_path):
    camvid_tree(tmp_path)
    write(tmp_path / "camvid/trainannot/001.png", np.zeros((24, 35)))
    write(tmp_path / "camvid/trainannot/002.png", photo(0, (24, 36)))
    (tmp_path / "camvid/trainannot/004.png").write_bytes(b"no image")
    found = CamVid("train", tmp_path)
    with pytest.raises(loope.LoopeError, match=r"001\.png is 24x36, but its mask .*001\.png is 24x35"):
        found[1]
    with pytest.raises(loope.LoopeError, match=r"002\.png is no mask: it has mode RGB"):
        found[2]
    with pytest.raises(loope.LoopeError, match=r"004\.png cannot be read as an image"):
        found[4]
    (tmp_path / "camvid/trainannot/005.png").unlink()
    with pytest.raises(loope.LoopeError, match=r"1 of 7 images have no mask; the first would be .*005\.png"):
        CamVid("train", tmp_path)


def test_bad_files_are_named_by_workers_too(tmp_path):
    camvid_tree(tmp_path)
    write(tmp_path / "camvid/trainannot/001.png", np.zeros((24, 35)))
    for workers in (0, 1):
        source = SegmentationSource(CamVid("train", tmp_path), 4, (16, 24), workers=workers)
        with pytest.raises(loope.LoopeError, match=r"^\S*001\.png is 24x36, but its mask"):
            list(source.batches(0))


def column_image(size=(40, 60)) -> tuple[torch.Tensor, torch.Tensor]:
    """An image whose red is the class of its mask, and whose green is the column."""
    mask = (torch.arange(size[1]) // 10).expand(size).to(torch.uint8).contiguous()
    green = (torch.arange(size[1]) * 4).expand(size)
    return torch.stack((mask * 20, green, torch.zeros(size))).to(torch.uint8), mask


def test_for_evaluation_images_are_fitted_and_normalised():
    image, mask = column_image()
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    same, kept = Transform(Grid(40, 60), mean, std)(image, mask, 0, 0, 0)
    for channel in range(3):
        torch.testing.assert_close(same[channel], (image[channel] / 255 - mean[channel]) / std[channel])
    assert torch.equal(kept, mask.long())
    half, classes = Transform(Grid(20, 30), mean, std)(image, mask, 0, 0, 0)
    assert half.shape == (3, 20, 30)
    assert classes[0].tolist() == [column // 5 for column in range(30)]  # no class between two classes


def test_image_and_mask_change_alike():
    image, mask = column_image()
    transform = Transform(Grid(40, 60), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), Augment(jitter=0.0))
    mirrored, outside, scales = 0, 0, set()
    for index in range(60):
        pixels, classes = transform(image, mask, 0, 0, index)
        assert pixels.shape == (3, 40, 60)
        assert classes.shape == (40, 60)
        red = pixels[0] * 255 / 20
        inside = classes != VOID
        assert torch.equal(pixels.sum(0) * ~inside, torch.zeros(40, 60))  # what was added is void, and zero
        outside += bool((~inside).any())
        # Where red has not been mixed with its neighbours, it still tells the class.
        clear = inside & ((red - red.round()).abs() < 1e-3) & (pixels[1] > 0)
        assert clear.sum() > 50
        assert (red[clear].round() == classes[clear]).double().mean() > 0.9
        row = classes[inside.any(1)][0]
        row = row[row != VOID]
        mirrored += bool(row[0] > row[-1])
        steps = row.diff().abs().sum().item()
        scales.add(round(len(row) / max(steps, 1)))
    assert 15 < mirrored < 45
    assert 10 < outside < 50
    assert len(scales) > 5


def test_colours_change_alone():
    image, mask = torch.full((3, 20, 20), 120, dtype=torch.uint8), torch.ones(20, 20, dtype=torch.uint8)
    image[0] = 60
    plain = Transform(Grid(20, 20), (0.5,) * 3, (0.5,) * 3, Augment(scale=(1.0, 1.0), flip=0.0, jitter=0.0))
    vivid = Transform(Grid(20, 20), (0.5,) * 3, (0.5,) * 3, Augment(scale=(1.0, 1.0), flip=0.0, jitter=0.5))
    before = plain(image, mask, 0, 0, 0)[0]
    torch.testing.assert_close(before, (image / 255 - 0.5) / 0.5)
    after = [vivid(image, mask, 0, 0, index) for index in range(20)]
    assert all(torch.equal(classes, mask.long()) for _, classes in after)
    assert len({round(pixels.mean().item(), 4) for pixels, _ in after}) == 20
    assert max((pixels - before).abs().max().item() for pixels, _ in after) < 0.8


def test_augmentation_out_of_range():
    for wrong in ({"scale": (0.0, 1.0)}, {"scale": (2.0, 1.0)}, {"flip": 1.5}, {"jitter": -0.1}):
        with pytest.raises(loope.LoopeError, match=f"`{next(iter(wrong))}` must be"):
            Augment(**wrong)


@pytest.fixture
def camvid(tmp_path):
    return CamVid("train", camvid_tree(tmp_path))


def test_a_training_source(camvid):
    source = SegmentationSource(camvid, 3, (16, 24), train=True, augment=Augment(), seed=1)
    assert (source.samples, source.steps) == (6, 2)
    first, again, next_epoch = (list(source.batches(epoch)) for epoch in (0, 0, 1))
    for images, masks in first:
        assert images.shape == (3, 3, 16, 24)
        assert images.dtype == torch.float32
        assert masks.shape == (3, 16, 24)
        assert masks.dtype == torch.int64
    assert all(torch.equal(a, b) for pair in zip(first, again, strict=True) for a, b in zip(*pair, strict=True))
    assert not torch.equal(first[0][0], next_epoch[0][0])
    other = SegmentationSource(camvid, 3, (16, 24), train=True, augment=Augment(), seed=2)
    assert not torch.equal(first[0][0], next(other.batches(0))[0])


def test_a_batch_follows_from_its_place_alone(camvid):
    make = {"train": True, "augment": Augment(), "seed": 1}
    source = SegmentationSource(camvid, 4, (16, 24), **make)
    torch.manual_seed(5)
    images, masks = next(source.batches(2, start=0))
    state = torch.random.get_rng_state()
    late = list(SegmentationSource(camvid, 2, (16, 24), **make).batches(2, start=2))
    assert len(late) == 1
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's chance is touched
    for workers in (0, 1):
        fresh = SegmentationSource(camvid, 4, (16, 24), workers=workers, **make)
        assert torch.equal(next(fresh.batches(2))[0], images)
        halves = [next(fresh.batches(2, share=(rank, 2))) for rank in range(2)]
        assert torch.equal(torch.cat([half[0] for half in halves]), images)
        assert torch.equal(torch.cat([half[1] for half in halves]), masks)


def test_each_sample_is_changed_in_its_own_way_and_anew_in_each_epoch():
    alike = [column_image()] * 4
    source = SegmentationSource(alike, 4, (20, 30), train=True, augment=Augment(jitter=0.0))
    seen = [image for epoch in range(2) for image in next(source.batches(epoch))[0]]
    assert not any(torch.equal(one, two) for one, two in combinations(seen, 2))


def test_an_evaluation_source_gives_every_image_once(camvid):
    source = SegmentationSource(camvid, 3, (24, 36))
    assert (source.samples, source.steps) == (7, 3)
    whole = list(source.batches(0))
    assert [len(images) for images, _ in whole] == [3, 3, 1]
    masks = torch.cat([masks for _, masks in whole])
    assert all(torch.equal(masks[index], camvid[index][1].long()) for index in range(7))
    shares = [list(source.batches(0, share=(rank, 3))) for rank in range(3)]
    assert [[len(images) for images, _ in share] for share in shares] == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    assert shares[0][2][0].shape == (0, 3, 24, 36)
    assert shares[0][2][1].shape == (0, 24, 36)


def test_parts_of_a_data_set_are_data_sets(camvid):
    train, valid = torch.utils.data.random_split(camvid, [5, 2], generator=torch.Generator().manual_seed(0))
    assert SegmentationSource(train, 2, (16, 24), train=True).steps == 2
    assert sum(len(images) for images, _ in SegmentationSource(valid, 4, (16, 24)).batches(0)) == 2


def test_sources_that_cannot_be(camvid):
    for arguments, message in [
        ({"augment": Augment()}, "Only training images are augmented"),
        ({"train": True, "batch_size": 8}, "at least one whole batch"),
        ({"size": 0}, "`size` must be at least 1x1"),
        ({"workers": -1}, "`workers` must be a whole number"),
    ]:
        with pytest.raises(loope.LoopeError, match=message):
            SegmentationSource(camvid, **{"batch_size": 2, "size": (16, 24), **arguments})


def test_workers_leave_interrupts_to_the_trainer(tmp_path):
    camvid = CamVid("train", camvid_tree(tmp_path))
    expected = list(SegmentationSource(camvid, 1, (16, 16)).batches(0))
    batches = SegmentationSource(camvid, 1, (16, 16), workers=1).batches(0)
    found = [next(batches)]
    (worker,) = multiprocessing.active_children()
    os.kill(worker.pid, signal.SIGINT)
    found += list(batches)
    assert len(found) == len(expected) > 1
    for (images, masks), (same_images, same_masks) in zip(found, expected, strict=True):
        assert torch.equal(images, same_images)
        assert torch.equal(masks, same_masks)
