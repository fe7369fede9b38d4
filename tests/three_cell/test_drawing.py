"""Drawings of Three-Cell: what they show, not how it looks."""

import pytest
import torch

import loope
from loope import plots
from loope.core.grid import Grid
from loope.three_cell import drawing
from loope.three_cell.bits import in_words
from loope.three_cell.questions import answer


def test_samples_are_drawn_with_their_answers():
    data = loope.ThreeCell(6, (4, 6), cell=1)
    figure = drawing.samples(data.cells, data.labels, data.grid, columns=3)
    assert len(figure.axes) == 6
    for ax, (image, label) in zip(figure.axes, data, strict=True):
        assert torch.equal(torch.as_tensor(ax.images[0].get_array().data).permute(2, 0, 1), image)
        assert ax.get_xlabel().split("\n") == list(in_words(label.tolist()).values())
    assert plots.png(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("cells", "outside"),
    [([[1, 2], [4, 0], [0, 4]], True), ([[4, 1], [1, 3], [5, 5]], False), ([[6, 6], [6, 5], [5, 6]], True)],
)
def test_questions_are_drawn_with_their_answers(cells, outside):
    grid, triple = Grid(7, 7), torch.tensor(cells)
    label = answer(triple[None], grid)[0]
    seen, *asked = drawing.questions(triple, label, grid).axes
    assert [ax.get_xlabel() for ax in asked] == list(in_words(label.tolist()).values())
    drawn = torch.as_tensor(seen.images[0].get_array().data)
    assert drawn.nonzero().tolist() == sorted([*cell, channel] for channel, cell in enumerate(cells))
    (end,) = (line.get_xydata()[0] for line in asked[3].lines if line.get_marker() == "*")
    assert (min(end) < -0.5 or max(end) > 6.5) == outside == bool(label[5])
    (left, right), (low, high) = asked[3].get_xlim(), asked[3].get_ylim()
    assert left < end[0] < right  # the end is within the panel
    assert high < end[1] < low


def test_samplers_are_compared_by_place_and_length():
    grid = loope.ThreeCell(1, 3).grid
    corner = torch.tensor([[[0, 0], [0, 2], [1, 1]]]).repeat(50, 1, 1)
    figure = drawing.samplers({"exact": loope.ThreeCell(90, 3).cells, "fixed": corner}, grid)
    red = torch.as_tensor(figure.axes[2].images[0].get_array().data)
    assert red[0, 0] == 9  # nine times as often as if all cells were alike
    assert red.sum() == 9
    assert figure.axes[3].images[0].get_array().data[0, 2] == 9
    assert plots.png(figure).startswith(b"\x89PNG")
