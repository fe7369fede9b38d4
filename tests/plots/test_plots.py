"""Drawings: what they show, not how it looks."""

import torch
from matplotlib.text import Text

import loope
from loope import plots
from loope.core.grid import Grid
from loope.lab.reports import figures, html


def test_sliding_moves_along_the_curve():
    order = loope.create_order("snake", 2, 3)
    still = plots.slide(order, torch.zeros(6))
    assert torch.equal(still, order.path.double())
    half = plots.slide(order, torch.full((6,), 0.5))
    assert half[:3].tolist() == [[0, 0.5], [0, 1.5], [0.5, 2]]
    assert half[-1].tolist() == [1, 0]  # the curve ends here
    one = torch.zeros(2, 3)
    one[1, 1] = -1  # the cell at position 4 slides back to where 3 is
    assert plots.slide(order, one.flatten())[4].tolist() == [1, 2]


def test_figures_have_a_panel_for_each():
    chosen = [loope.create_order(name, 3, 5) for name in ("raster", "gilbert", "spiral", "peano")]
    figure = plots.orders(chosen)
    assert [ax.get_title() for ax in figure.axes] == ["raster", "gilbert", "spiral", "peano"]
    assert plots.png(figure).startswith(b"\x89PNG")
    assert len(plots.orders([loope.create_order("raster", 1, 1)]).axes) == 1

    grid = Grid(3, 4)
    matrix = torch.rand(12, 12)
    panel = plots.similarity({"a": matrix}, grid, (1, 2)).axes[0]
    assert torch.equal(torch.as_tensor(panel.images[0].get_array().data), matrix[6].view(3, 4))

    moved = torch.linspace(-1, 1, 12)
    figure = plots.offsets(torch.rand(3, 12, 16), loope.create_order("gilbert", 3, 4), moved)
    assert torch.equal(torch.as_tensor(figure.axes[2].images[0].get_array().data), moved.view(3, 4))


def test_learning_curves_name_what_ends_best_first():
    curves = {"a": [[(1, 50.0), (2, 60.0)]], "b": [[(1, 50.0), (2, 90.0)], [(1, 50.0), (2, 80.0)]], "c": [[]]}
    figure = figures.learning_curves(curves, "epoch", "accuracy", floor=55)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b", "a", "c", "a constant answer"]
    colours = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    assert figure.legends[0].get_lines()[0].get_color() == colours["b"]


def test_names_in_a_scatter_do_not_lie_on_each_other():
    places = {"first": (1.0, 1.0), "second": (1.0, 1.0), "third": (1.001, 1.001), "far": (2.0, 3.0)}
    figure = figures.scatter(places, "x", "y")
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(label) for label in figure.axes[0].texts]  # without the lines to the dots
    assert [label.get_text() for label in figure.axes[0].texts] == list(places)
    assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])
    dots = [line.get_window_extent() for line in figure.axes[0].lines]
    assert not any(box.overlaps(dot) for box in boxes for dot in dots)


def test_clouds_have_a_colour_for_each_name():
    figure = figures.clouds({"a": [(0.0, 1.0), (2.0, 3.0)], "b": [(4.0, 5.0)]}, "x", "y")
    drawn = [line.get_xydata().tolist() for line in figure.axes[0].lines]
    assert drawn == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert len({line.get_color() for line in figure.legends[0].get_lines()}) == 2


def test_pages_escape_what_they_are_given():
    page = html.page(
        "a < b",
        html.text("<b>", "x & y", "<s>"),
        html.table(["<i>"], [["<u>"]], [["<em>"]]),
        html.picture(b"png", "it's"),
        html.lead("<q>"),
        html.note("<var>"),
        html.terms([("<kbd>", "<sub>")]),
        html.code("<sup>"),
    )
    for raw in ("<b>", "<s>", "<i>", "<u>", "<em>", "it's", "<q>", "<var>", "<kbd>", "<sub>", "<sup>"):
        assert raw not in page
    assert "cG5n" in page


def test_changes_go_from_the_one_value_to_the_other():
    (ax,) = figures.changes({"a": (50.0, 98.0), "b": (56.0, 93.0)}, "accuracy, %", {"original": 97.0}).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]  # the first is on top
    dots = [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in ax.lines if line.get_marker() == "o"]
    assert dots == [(56.0, 0.0), (93.0, 0.0), (50.0, 1.0), (98.0, 1.0)]
    assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"] == [97.0]


def test_intervals_stand_where_the_numbers_are():
    nan = float("nan")
    figure = figures.intervals({"a": (90.0, 2.0, 93.0), "b": (95.0, 1.0, None), "c": (50.0, nan, None)}, "average, %")
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c", "a", "b"]  # the best is drawn on top
    drawn = [(line.get_xdata().tolist(), float(line.get_ydata()[0])) for line in ax.lines]
    assert ([88.0, 92.0], 1.0) in drawn
    assert ([94.0, 96.0], 2.0) in drawn
    assert ([93.0], 1.0) in drawn
    assert ([50.0], 0.0) in drawn
    assert sorted(ax.get_legend_handles_labels()[1]) == ["here", "published"]
