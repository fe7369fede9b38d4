"""The four questions: against fractions, and what each must and must not depend on."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.three_cell.bits import BITS, TASKS, by_task, in_words
from loope.three_cell.questions import QUESTIONS, answer
from tests.three_cell.reference import label, on_a_line, triples


def every_triple(grid: Grid) -> torch.Tensor:
    """`(n, 3, 2)`: all valid triples."""
    return torch.tensor(list(triples(*grid)))


@st.composite
def placed(draw):
    """A grid and a valid triple in it."""
    grid = Grid(draw(st.integers(2, 40)), draw(st.integers(2, 40)))
    cell = st.tuples(st.integers(0, grid.height - 1), st.integers(0, grid.width - 1))
    three = draw(st.tuples(cell, cell, cell).filter(lambda three: not on_a_line(*three)))
    return grid, three


@given(placed())
def test_bits_agree_with_fractions(case):
    grid, three = case
    assert answer(torch.tensor([three]), grid)[0].tolist() == label(*grid, *three)


@pytest.mark.parametrize("grid", [Grid(3, 3), Grid(4, 5), Grid(5, 4), Grid(2, 6)], ids=str)
def test_bits_agree_with_fractions_on_every_triple(grid):
    cells = every_triple(grid)
    assert answer(cells, grid).tolist() == [label(*grid, *map(tuple, three)) for three in cells.tolist()]


def test_questions_fill_the_bits_in_order():
    cells, grid = every_triple(Grid(3, 4)), Grid(3, 4)
    bits = answer(cells, grid)
    assert bits.dtype == torch.int64
    assert sorted(place for places in TASKS.values() for place in places) == list(range(len(BITS)))
    assert list(QUESTIONS) == list(TASKS)
    for task, places in TASKS.items():
        assert torch.equal(QUESTIONS[task](cells, grid).long(), bits[:, list(places)])


@given(placed(), st.data())
def test_distance_and_orientation_do_not_see_translation(case, data):
    grid, three = case
    cells = torch.tensor([three])
    low, high = cells.amin((0, 1)), cells.amax((0, 1))
    down = data.draw(st.integers(-int(low[0]), grid.height - 1 - int(high[0])))
    across = data.draw(st.integers(-int(low[1]), grid.width - 1 - int(high[1])))
    moved = cells + torch.tensor([down, across])
    before, after = answer(cells, grid)[0], answer(moved, grid)[0]
    assert before[:3].tolist() == after[:3].tolist()
    # A step sideways leaves the heights, and so the areas, as they are.
    assert answer(cells + torch.tensor([0, across]), grid)[0, 3:5].tolist() == before[3:5].tolist()


@given(placed())
def test_what_reflections_do(case):
    grid, three = case
    cells = torch.tensor([three])
    bits = answer(cells, grid)[0].tolist()
    sideways = answer(torch.stack((cells[..., 0], grid.width - 1 - cells[..., 1]), dim=-1), grid)[0].tolist()
    assert sideways == [*bits[:2], 1 - bits[2], *bits[3:]]  # only the orientation flips
    upside_down = answer(torch.stack((grid.height - 1 - cells[..., 0], cells[..., 1]), dim=-1), grid)[0].tolist()
    assert upside_down[:3] == [*bits[:2], 1 - bits[2]]
    assert upside_down[5] == bits[5]  # the areas may change: the bottom edge is another one
    transposed = answer(cells.flip(-1), Grid(grid.width, grid.height))[0].tolist()
    assert transposed[:3] + transposed[5:] == [*bits[:2], 1 - bits[2], bits[5]]


@given(placed())
def test_what_exchanging_colours_does(case):
    grid, three = case
    bits = answer(torch.tensor([three]), grid)[0].tolist()
    red, green, blue = three
    swapped = answer(torch.tensor([(red, blue, green)]), grid)[0].tolist()
    assert swapped == [bits[1], bits[0], 1 - bits[2], bits[4], bits[3], bits[5]]
    everyone = answer(torch.tensor(list(permutations(three))), grid)
    assert everyone[:, 5].unique().tolist() == [bits[5]]  # a sum has no order
    assert everyone[:, 2].sum() == 3


@pytest.mark.parametrize(("question", "step"), [("area", (1, 0)), ("vector_sum", (1, 0)), ("vector_sum", (0, 1))])
def test_area_and_vector_sum_change_with_translation(question, step):
    grid = Grid(5, 5)
    cells = every_triple(grid)
    moved = cells + torch.tensor(step)
    stays = (moved < 5).all(-1).all(-1)
    before, after = (QUESTIONS[question](where[stays], grid) for where in (cells, moved))
    # The relative positions are the same: who knows only those cannot give both answers.
    assert (before != after).any()
    assert (before == after).any()


def test_no_sum_ends_on_the_edge_and_no_height_is_negative():
    for grid in (Grid(3, 4), Grid(4, 3), Grid(5, 5)):
        sums = every_triple(grid).sum(1) * 2 - 3 * (torch.tensor(grid) - 1)
        assert not (sums.abs() == torch.tensor(grid)).any()


def test_labels_read_as_words():
    words = in_words([1, 0, 0, 0, 0, 1])
    assert words == {
        "distance": "RG is longer than RB",
        "orientation": "R, G, B run clockwise",
        "area": "the shadows are equal",
        "vector_sum": "the sum leaves the grid",
    }
    for bad in ([1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 1, 0], [2, 0, 0, 0, 0, 0]):
        with pytest.raises(LoopeError, match="six bits"):
            in_words(bad)


def test_tasks_are_means_over_their_bits():
    scores = by_task([0.0, 1.0, 0.25, 0.5, 1.0, 0.75])
    assert scores == {"distance": 0.5, "orientation": 0.25, "area": 0.75, "vector_sum": 0.75, "average": 0.5625}
