"""Drawings of what PESI measures: what they show, not how it looks."""

import pytest
import torch

import loope
from loope import plots
from loope.core.grid import Grid


def shown(ax):
    return torch.as_tensor(ax.images[0].get_array().data)


def test_similarity_maps_have_a_column_for_each_and_a_row_for_each_centre():
    grid = Grid(3, 5)
    maps = {name: torch.rand(15, 15, dtype=torch.float64) for name in ("a", "b")}
    axes = plots.similarity_maps(maps, grid).axes
    assert len(axes) == 18
    centres = [(0, 0), (2, 0), (0, 4), (2, 4), (0, 2), (1, 0), (1, 4), (2, 2), (1, 2)]
    for place, (row, column) in enumerate(centres):
        for ax, matrix in zip(axes[2 * place :], maps.values(), strict=False):
            assert torch.equal(shown(ax), matrix[row * 5 + column].view(3, 5))
            assert (ax.lines[0].get_xdata()[0], ax.lines[0].get_ydata()[0]) == (column, row)
        assert axes[2 * place].get_ylabel() == f"({row}, {column})"
    assert [ax.get_title() for ax in axes[:3]] == ["a", "b", ""]


def test_similarity_maps_of_chosen_centres():
    figure = plots.similarity_maps({"a": torch.rand(4, 4)}, 2, centres=[(1, 0)])
    assert len(figure.axes) == 1
    assert plots.png(figure).startswith(b"\x89PNG")
    with pytest.raises(loope.LoopeError, match=r"on the grid of 2x2, got \[\(2, 0\)\]"):
        plots.similarity_maps({"a": torch.rand(4, 4)}, 2, centres=[(2, 0)])


def test_directions_are_drawn_below_the_ceiling():
    ceiling = {8: 1.8, 1: 2.0}
    (ax,) = plots.directions({"a": {8: 1.2, 1: 0.5}, "b": {8: 1.7}}, ceiling).axes
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}
    assert lines["ceiling"] == ([1, 8], [2.0, 1.8])
    assert lines["a"] == ([1, 8], [0.5, 1.2])
    assert lines["b"] == ([8], [1.7])
    assert ax.get_ylim()[0] < 0.5
    assert ax.get_ylim()[1] > 2
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["ceiling", "a", "b"]


def test_curves_lie_over_the_image():
    chosen = [loope.create_order(name, 2, 3) for name in ("raster", "snake")]
    figure = plots.orders(chosen, image=torch.rand(3, 8, 12))
    assert [ax.get_title() for ax in figure.axes] == ["raster", "snake"]
    for ax, order in zip(figure.axes, chosen, strict=True):
        assert ax.images[0].get_extent() == [-0.5, 2.5, 1.5, -0.5]  # pixels lie where their cells are drawn
        (line,) = ax.collections
        assert torch.equal(torch.as_tensor(line.get_segments()[0]), order.path[:2].flip(1).double())


def test_arrows_point_along_the_curve():
    order, moved = loope.create_order("snake", 2, 3), torch.zeros(2, 3)
    moved[0, 2], moved[1, 1] = 0.5, -1  # half a cell down, one cell back to the right
    figure = plots.offset_arrows(torch.rand(3, 8, 12), order, moved.flatten())
    (arrows,) = [c for c in figure.axes[0].collections if hasattr(c, "U")]
    start = [tuple(xy) for xy in arrows.get_offsets().tolist()]
    assert start == [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)]
    assert arrows.U.tolist() == [0, 0, 0, 0, 1, 0]
    assert arrows.V.tolist() == [0, 0, 0.5, 0, 0, 0]
    assert arrows.get_array().tolist() == [0, 0, 0.5, 0, -1, 0]
    assert torch.equal(shown(figure.axes[1]).float(), moved)
