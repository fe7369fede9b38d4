"""Positions: what each way of making them says, and what they refuse."""

import copy
import io

import pytest
import torch

import loope
from loope import LoopeError, Positions


def cells(grid):
    return [[row, column] for row in range(grid[0]) for column in range(grid[1])]


def test_a_whole_grid_is_row_major_and_has_no_tensors():
    positions = Positions.grid(3, 4)
    assert positions.whole == (3, 4)
    assert positions.length == 12
    assert positions.rows == 1
    assert positions.device is None
    assert positions.coordinates.tolist() == [cells((3, 4))]
    assert Positions.grid(5).whole == (5, 5)


def test_take_chooses_patches_of_each_image():
    taken = Positions.grid(2, 3).take(torch.tensor([[5, 0], [1, 1]]))
    assert taken.whole is None
    assert taken.rows == 2
    assert taken.coordinates.tolist() == [[[1, 2], [0, 0]], [[0, 1], [0, 1]]]
    again = taken.take([1])
    assert again.coordinates.tolist() == [[[0, 0]], [[0, 1]]]
    packed = Positions.packed([(1, 2), (2, 2)]).take([4, 0])
    assert packed.sequence.tolist() == [[1, 0]]
    assert packed.coordinates.tolist() == [[[1, 0], [0, 0]]]


def test_a_batch_is_padded_to_the_longest():
    batch = Positions.batch([(1, 2), (2, 3)])
    assert batch.valid.tolist() == [[True, True, False, False, False, False], [True] * 6]
    assert batch.coordinates[0, :2].tolist() == cells((1, 2))
    assert batch.coordinates[1].tolist() == cells((2, 3))
    assert Positions.batch([(2, 2), (2, 2)]).whole == (2, 2)


def test_a_packed_sequence_knows_its_images():
    packed = Positions.packed([(2, 2), (1, 3)])
    assert packed.sequence.tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert packed.coordinates[0].tolist() == cells((2, 2)) + cells((1, 3))
    visible = packed.visible()[0]
    for query in range(7):
        for key in range(7):
            assert bool(visible[query, key]) == ((query < 4) == (key < 4))


def test_padding_is_not_seen_and_no_row_is_empty():
    visible = Positions.batch([(1, 2), (2, 2)]).visible()
    assert visible[0].tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, False, True],
    ]
    assert bool(visible[1].all())


def test_given_coordinates_at_cells_are_those_cells():
    points = torch.tensor(cells((2, 3))).flip(0)
    positions = Positions.at(points.float(), (2, 3))
    assert positions.cells.tolist() == [[5, 4, 3, 2, 1, 0]]
    assert Positions.at(points, (2, 3)).cells.tolist() == [[5, 4, 3, 2, 1, 0]]
    between = Positions.at(points + 0.25, (2, 3))
    assert between.cells is None
    assert between.nearest().tolist() == [[5, 4, 3, 2, 1, 0]]


def test_shift_scale_and_jitter_move_coordinates():
    grid = Positions.grid(2, 2)
    assert grid.shift(rows=1, columns=-2).coordinates[0].tolist() == [[1, -2], [1, -1], [2, -2], [2, -1]]
    # Cell centres at 0.5 and 1.5 from the corner move to 0.25 and 0.75, and columns to 1 and 3.
    assert grid.scale((0.5, 2.0)).coordinates[0].tolist() == [[-0.25, 0.5], [-0.25, 2.5], [0.25, 0.5], [0.25, 2.5]]
    one, two, other = (grid.jitter(torch.Generator().manual_seed(seed), amount=0.3, images=3) for seed in (0, 0, 1))
    assert torch.equal(one.coordinates, two.coordinates)
    assert not torch.equal(one.coordinates, other.coordinates)
    assert one.coordinates.shape == (3, 4, 2)
    away = (one.coordinates - grid.coordinates).abs()
    assert 0 < float(away.max()) <= 0.3
    assert not torch.equal(away[0], away[1])
    assert grid.whole == (2, 2), "positions are immutable"


def test_positions_move_between_devices_and_are_copied():
    packed = Positions.packed([(2, 2), (1, 3)]).shift(0.5)
    there = packed.to("meta")
    assert there.device == torch.device("meta")
    assert there.moved.is_meta
    assert there.sequence.is_meta
    twin = copy.deepcopy(packed)
    assert torch.equal(twin.coordinates, packed.coordinates)
    assert twin.grids == packed.grids


@pytest.mark.parametrize(
    "make",
    [
        lambda: Positions.grid(2, 3).take([6]),
        lambda: Positions.grid(2, 3).take([-1]),
        lambda: Positions.grid(2, 3).take([]),
        lambda: Positions.grid(2, 3).take([0.5]),
        lambda: Positions.grid(2, 3).take(torch.zeros(1, 1, 1, dtype=torch.long)),
        lambda: Positions.batch([(1, 2), (2, 2)]).take(torch.zeros(3, 1, dtype=torch.long)),
        lambda: Positions.batch([]),
        lambda: Positions.packed([(0, 2)]),
        lambda: Positions.at(torch.tensor([[0.0, 3.0]]), (2, 3)),
        lambda: Positions.at(torch.tensor([[-1.0, 0.0]]), (2, 3)),
        lambda: Positions.at(torch.tensor([[float("nan"), 0.0]]), (2, 3)),
        lambda: Positions.at(torch.zeros(4, 3), (2, 3)),
        lambda: Positions.at([[0, 0]], (2, 3)),
        lambda: Positions.at(torch.zeros(2, 4, 2), [(2, 3), (2, 3), (1, 1)]),
        lambda: Positions.at(torch.zeros(1, 4, 2), (2, 3), valid=torch.ones(1, 3, dtype=torch.bool)),
        lambda: Positions.at(torch.zeros(1, 4, 2), (2, 3), valid=torch.ones(1, 4)),
        lambda: Positions.at(torch.zeros(1, 4, 2), [(2, 3), (1, 1)], sequence=torch.tensor([[0, 0, 1, 2]])),
        lambda: Positions.grid(2, 2).scale(0),
        lambda: Positions.grid(2, 2).scale(None),
        lambda: Positions.grid(2, 2).scale("ab"),
        lambda: Positions.grid(2, 2).shift(float("nan")),
        lambda: Positions.grid(2, 2).shift(columns=float("inf")),
        lambda: Positions.grid(2, 2).shift("1"),
        lambda: Positions.grid(2, 2).jitter(amount=-1),
        lambda: Positions.grid(2, 2).jitter(amount="1"),
        lambda: Positions.grid(2, 2).jitter(images=0),
        lambda: Positions.grid(2, 2).jitter(images=1.5),
        lambda: Positions.batch([(1, 2), (2, 2)]).jitter(images=3),
        lambda: Positions.grid(2, 2).take(None),
        lambda: Positions.grid(2, 2).take("01"),
        lambda: Positions.grid(2, 2).take([[0, 1], [0]]),
        lambda: Positions.at(torch.zeros(1, 4, 2), (2, 3), valid=[[True] * 4]),
        lambda: Positions.at(torch.zeros(1, 4, 2), (2, 3), sequence=torch.zeros(1, 4, dtype=torch.bool)),
    ],
)
def test_bad_positions_are_refused(make):
    with pytest.raises(LoopeError):
        make()


def test_padding_may_be_anywhere():
    points = torch.tensor([[[0.0, 0.0], [float("nan"), 99.0]]])
    valid = torch.tensor([[True, False]])
    assert Positions.at(points, (1, 1), valid=valid).valid.tolist() == [[True, False]]


@pytest.mark.parametrize("name", loope.list_encoders())
def test_coordinates_of_padding_do_not_matter(name):
    encoder = loope.create_encoder(name, dim=16, grid=(2, 2), heads=2, depth=1, patch_size=4).eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    valid = torch.tensor([[True, True, False]])
    images, q, tokens = torch.rand(1, 3, 8, 8), torch.rand(1, 2, 3, 8), torch.rand(1, 3, 16)

    def run(padding):
        points = torch.tensor([[[0.0, 0.0], [1.0, 0.75], padding]])
        positions = Positions.at(points, (2, 2), valid=valid)
        calls = {
            "embed": lambda: encoder.embed(images, positions),
            "mix": lambda: encoder.mix(tokens, positions, 0),
            "rotate": lambda: torch.stack(encoder.rotate(q, q, positions, 0)),
            "bias": lambda: encoder.bias(q, positions, 0),
        }
        return torch.cat([calls[hook]().flatten() for hook in encoder.hooks()])

    strange = run([float("nan"), 99.0])
    assert not strange.isnan().any()
    assert torch.equal(strange, run([0.0, 0.0]))


@pytest.mark.parametrize(
    "positions",
    [
        Positions.grid(3, 4),
        Positions.grid(3, 4).take([3, 1]),
        Positions.grid(3, 4).shift(0.5),
        Positions.batch([(3, 4), (2, 2)]),
        Positions.packed([(2, 3), (2, 3)]),
    ],
    ids=["grid", "take", "shift", "batch", "packed"],
)
def test_positions_are_arguments_of_exported_programs(positions):
    class Rotate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = loope.create_encoder("rope_axial", dim=16, grid=(3, 4), heads=2)

        def forward(self, q, positions):
            return self.encoder.rotate(q, q, positions, 0)[0]

    q = torch.randn(positions.rows, 2, positions.length, 8)
    model = Rotate()
    program = torch.export.export(model, (q, positions))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(q, positions), model(q, positions))


def test_encoders_refuse_positions_of_another_batch():
    encoder = loope.create_encoder("rope_axial", dim=16, grid=(2, 3), heads=2)
    q = torch.randn(2, 2, 4, 8)
    with pytest.raises(LoopeError, match="positions of 3 images and tokens of 2"):
        encoder.rotate(q, q, Positions.grid(2, 3).take(torch.zeros(3, 4, dtype=torch.long)), 0)
    with pytest.raises(LoopeError, match="7 patches"):
        encoder.rotate(q, q, Positions.packed([(2, 2), (1, 3)]), 0)
