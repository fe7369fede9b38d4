"""Cityscapes and CamVid: read as published, and mistakes explained."""

import os

import numpy as np
import pytest
import torch

import loope
from loope.lab.data.segmentation import CamVid, Cityscapes
from loope.segmentation.labels import VOID
from tests.lab.data.dataset_files import photo, write_camvid, write_cityscapes, write_image
from tests.weights import data

# cityscapesScripts, helpers/labels.py: label id, train id. All others are void.
TRAIN_IDS = {
    7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11, 25: 12, 26: 13, 27: 14, 28: 15,
    31: 16, 32: 17, 33: 18,
}  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
def test_cityscapes_as_it_is_unpacked(tmp_path, monkeypatch, reverse):
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listed(path), reverse=reverse))  # file systems differ
    found = Cityscapes("train", write_cityscapes(tmp_path))
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
    found = CamVid("train", write_camvid(tmp_path))
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
        with pytest.raises(loope.LoopeError, match=rf"give root= \(--data\) or set LOOPE_DATA\. .*{how}"):
            cls("train")
        with pytest.raises(loope.LoopeError, match="Unknown split 'all'; use one of"):
            cls("all", tmp_path)
    (tmp_path / "camvid/train").mkdir(parents=True)
    (tmp_path / "camvid/trainannot").mkdir()
    with pytest.raises(loope.LoopeError, match=r"There is no image in .*camvid/train"):
        CamVid("train", tmp_path)


def test_masks_with_unknown_values(tmp_path):
    write_camvid(tmp_path)
    write_image(tmp_path / "camvid/trainannot/003.png", np.full((24, 36), 12))
    found = CamVid("train", tmp_path)
    with pytest.raises(
        loope.LoopeError, match=r"003\.png has the values \[12\], which CamVid does not know; .* 0 to 11"
    ):
        found[3]
    write_cityscapes(tmp_path)
    mask = next(tmp_path.glob("cityscapes/gtFine/train/bochum/*labelIds.png"))
    write_image(mask, np.full((24, 34), 77))
    with pytest.raises(loope.LoopeError, match=r"has the values \[77\], which Cityscapes does not know; .* 0 to 33"):
        Cityscapes("train", tmp_path)[2]


def test_images_and_masks_that_do_not_go_together(tmp_path):
    write_camvid(tmp_path)
    write_image(tmp_path / "camvid/trainannot/001.png", np.zeros((24, 35)))
    write_image(tmp_path / "camvid/trainannot/002.png", photo(0, (24, 36)))
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
