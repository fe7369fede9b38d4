"""The data set: sizes, splits, images, loaders, and what a model without positions can score on it."""

import pytest
import torch
from torch.utils.data import DataLoader

import loope
from loope.core.grid import Grid
from loope.three_cell.rendering import render
from loope.three_cell.splits import SPLITS
from tests.three_cell.reference import label

PINNED = [[[6, 7], [3, 11], [6, 2]], [[10, 10], [11, 7], [13, 11]]]
PINNED_TEST = [[[3, 10], [5, 1], [12, 8]], [[2, 2], [2, 9], [9, 2]]]


def configurations(data: loope.ThreeCell) -> set:
    return set(map(str, data.cells.tolist()))


def test_the_default_is_the_papers_size():
    data = loope.ThreeCell()
    assert len(data) == 10_000
    assert data.cells.shape == (10_000, 3, 2)
    assert data.labels.shape == (10_000, 6)
    image, bits = data[3]
    assert image.shape == (3, 224, 224)
    assert image.dtype == torch.float32
    assert bits.tolist() == label(14, 14, *map(tuple, data.cells[3].tolist()))


def test_seeds_decide_and_data_never_changes():
    same, other = loope.ThreeCell(50, seed=3), loope.ThreeCell(50, seed=4)
    assert torch.equal(loope.ThreeCell(50, seed=3).cells, same.cells)
    assert not torch.equal(same.cells, other.cells)
    # Published results rest on these numbers: another version must draw the same.
    assert loope.ThreeCell(2, seed=0).cells.tolist() == PINNED
    assert loope.ThreeCell(20, seed=0, split="test").cells.tolist() == PINNED_TEST


@pytest.mark.parametrize(("grid", "cell"), [((3, 3), 1), ((5, 8), 3), ((8, 5), 2)])
def test_images_show_the_cells(grid, cell):
    data = loope.ThreeCell(30, grid, cell)
    for index in range(30):
        image = data[index][0]
        expected = torch.zeros(3, grid[0] * cell, grid[1] * cell)
        for channel, (row, column) in enumerate(data.cells[index].tolist()):
            for y in range(row * cell, (row + 1) * cell):
                for x in range(column * cell, (column + 1) * cell):
                    expected[channel, y, x] = 1
        assert torch.equal(image, expected)
    assert torch.equal(data.render(data.cells), torch.stack([image for image, _ in data]))
    there = data.render(data.cells, device=torch.get_default_device())
    assert there.device == torch.get_default_device()
    bytes_ = render(data.cells, data.grid, cell, dtype=torch.uint8)
    assert torch.equal(bytes_, (data.render(data.cells) * 255).to(torch.uint8))


def test_indices_work_as_in_a_list():
    data = loope.ThreeCell(5, 4, 1)
    assert torch.equal(data[-1][0], data[4][0])
    assert len(list(data)) == 5
    with pytest.raises(IndexError):
        data[5]


@pytest.mark.parametrize("grid", [3, (3, 5), 14])
def test_splits_share_no_configuration(grid):
    parts = [loope.ThreeCell(2000, grid, split=split) for split in SPLITS]
    assert [len(part) for part in parts] == [1600, 200, 200]
    sets = [configurations(part) for part in parts]
    assert sum(map(len, sets)) == len(set.union(*sets))
    # Nor if they are of other sizes.
    assert not configurations(loope.ThreeCell(5000, grid, split="train")) & (sets[1] | sets[2])
    if grid == 3:  # there are 456 triples: without parts they would meet
        shared = [loope.ThreeCell(2000, grid, split=split, share_configurations=True) for split in SPLITS]
        assert configurations(shared[0]) & configurations(shared[2])


def test_other_seeds_split_elsewhere():
    test = [configurations(loope.ThreeCell(5000, 3, split="test", seed=seed)) for seed in (0, 1)]
    train = configurations(loope.ThreeCell(5000, 3, split="train", seed=1))
    assert test[0] != test[1]
    assert test[0] & train


def test_split_sizes_add_up():
    for size in (10, 11, 15, 99, 1234):
        assert sum(len(loope.ThreeCell(size, 5, split=split)) for split in SPLITS) == size
    halves = {"fractions": (0.5, 0.25, 0.25)}
    assert [len(loope.ThreeCell(100, split=split, **halves)) for split in SPLITS] == [50, 25, 25]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "`size` must be a whole number from 1 up"),
        ({"size": -5}, "`size` must be"),
        ({"size": 2.5}, "`size` must be"),
        ({"cell": 0}, "`cell` must be"),
        ({"grid": 0}, "at least 1x1"),
        ({"grid": (1, 14)}, "not on one line.*1x14.*use 3x3"),
        ({"grid": (257, 256)}, "up to 65,536 cells, got 257x256"),
        ({"seed": -1}, "`seed` must be a whole number from 0 up"),
        ({"seed": 1.5}, "`seed` must be"),
        ({"seed": True}, "`seed` must be"),
        ({"split": "training"}, "Unknown split 'training'; use one of: train"),
        ({"sampler": "papre"}, "Unknown sampler 'papre'; use one of: paper"),
        ({"fractions": (0.8, 0.1, 0.2)}, "add up to 1, got .*add up to 1.1; use"),
        ({"fractions": (0.8, 0.2)}, "three shares"),
        ({"fractions": (1.2, -0.1, -0.1)}, "from 0 up"),
        ({"fractions": ("a", "b", "c")}, "three shares"),
        ({"fractions": (float("nan"), 0.1, 0.1)}, "three shares"),
        ({"size": 3, "split": "test"}, "leave the split 'test' at least one sample"),
        ({"grid": 2, "split": "test", "seed": 1}, "too few triples.*share_configurations=True"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.ThreeCell(**{"size": 100, **arguments})


def test_cells_that_cannot_be_drawn():
    good = torch.tensor([[[0, 0], [1, 1], [2, 0]]])
    for bad in (good.double(), good[0], good[:, :2], good + 1, good - 1):
        with pytest.raises(loope.LoopeError, match="`cells` must"):
            render(bad, Grid(3, 2), 4)


def test_torch_loaders_take_it():
    data = loope.ThreeCell(40, 5, 2)
    images, labels = next(iter(DataLoader(data, batch_size=40)))
    assert torch.equal(images, data.render(data.cells))
    assert torch.equal(labels, data.labels)
    shuffled = list(DataLoader(data, batch_size=16, shuffle=True))
    assert sum(len(images) for images, _ in shuffled) == 40


def test_majority_rates_count_the_more_frequent_answer():
    data = loope.ThreeCell(999, (6, 4), seed=2)
    per_bit = []
    for bit in range(6):
        ones = sum(row[bit] for row in data.labels.tolist())
        per_bit.append(max(ones, 999 - ones) / 999)
    rates = data.majority_rates()
    assert rates["distance"] == pytest.approx((per_bit[0] + per_bit[1]) / 2, abs=1e-12)
    assert rates["orientation"] == per_bit[2]
    assert rates["area"] == pytest.approx((per_bit[3] + per_bit[4]) / 2, abs=1e-12)
    assert rates["vector_sum"] == per_bit[5]
    tasks = ("distance", "orientation", "area", "vector_sum")
    assert rates["average"] == pytest.approx(sum(rates[task] for task in tasks) / 4, abs=1e-12)


def test_the_published_share_outside_needs_the_centre_as_origin():
    rates = loope.ThreeCell(seed=1).majority_rates()
    assert rates["distance"] == pytest.approx(2 / 3, abs=0.01)
    assert 0.56 < rates["vector_sum"] < 0.6
