"""Three-Cell as a source of batches."""

import pytest
import torch

import loope
from loope.core.errors import LoopeError
from loope.core.seeds import derive
from loope.lab.data.three_cell import ThreeCellSource

DATA = loope.ThreeCell(30, (5, 4), 2)


def test_training_shuffles_in_each_epoch_and_drops_the_rest():
    source = ThreeCellSource(DATA, 8, train=True, seed=3)
    assert (source.steps, source.samples) == (3, 24)
    for epoch in (0, 1):
        order = torch.randperm(30, generator=torch.Generator().manual_seed(derive("order", 3, epoch)))
        batches = list(source.batches(epoch))
        assert len(batches) == 3
        for step, (images, bits) in enumerate(batches):
            chosen = order[8 * step : 8 * step + 8].tolist()
            assert torch.equal(images, torch.stack([DATA[index][0] for index in chosen]))
            assert torch.equal(bits, torch.stack([DATA[index][1].float() for index in chosen]))
    other = ThreeCellSource(DATA, 8, train=True, seed=4)
    assert not torch.equal(next(other.batches(0))[0], next(source.batches(0))[0])
    assert not torch.equal(next(source.batches(0))[0], next(source.batches(1))[0])


def test_evaluation_keeps_all_samples_in_order():
    source = ThreeCellSource(DATA, 8)
    assert (source.steps, source.samples) == (4, 30)
    images, bits = (torch.cat(parts) for parts in zip(*source.batches(0), strict=True))
    assert torch.equal(images, DATA.render(DATA.cells))
    assert torch.equal(bits, DATA.labels.float())


@pytest.mark.parametrize("train", [True, False])
def test_resumed_and_shared_batches_are_the_same(train):
    source = ThreeCellSource(DATA, 9 if train else 29, train=train)
    whole = list(source.batches(2))
    shares = [list(source.batches(2, 1, (rank, 3))) for rank in range(3)]
    assert [len(share) for share in shares] == [len(whole) - 1] * 3
    for step, parts in enumerate(zip(*shares, strict=True), start=1):
        for place in (0, 1):
            assert torch.equal(torch.cat([part[place] for part in parts]), whole[step][place])
    sizes = [len(share[-1][0]) for share in shares]
    assert sizes == ([3, 3, 3] if train else [0, 0, 1])


def test_images_are_made_on_the_device():
    images, bits = next(ThreeCellSource(DATA, 8, device="meta").batches(0))
    assert (images.device.type, bits.device.type) == ("meta", "meta")


def test_too_few_samples_for_a_batch():
    with pytest.raises(LoopeError, match="at least one whole batch, got 30 samples and a `batch_size` of 64"):
        ThreeCellSource(DATA, train=True)
