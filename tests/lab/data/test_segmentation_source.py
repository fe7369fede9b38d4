"""Batches of images and masks: what they hold, and that nothing but seed, epoch and step decides it."""

from itertools import combinations

import pytest
import torch

import loope
from loope.lab.data.segmentation import Augment, CamVid, SegmentationSource
from tests.lab.data.dataset_files import write_camvid
from tests.lab.data.sources import column_image


@pytest.fixture
def camvid(tmp_path):
    return CamVid("train", write_camvid(tmp_path))


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
