"""Drawings of segmentations: what they show, not how it looks."""

import pytest
import torch

import loope
from loope import plots
from loope.segmentation.drawing import examples, legend, mark_errors, overlay
from loope.segmentation.labels import VOID, Labels

LABELS = Labels("toy", ("red", "green"), ((200, 0, 0), (0, 200, 0)))


def test_an_overlay_is_half_image_half_colour():
    image = torch.full((1, 3, 3), 100, dtype=torch.uint8)
    drawn = overlay(image, torch.tensor([[0, 1, VOID]]), LABELS)
    assert drawn.tolist() == [[[150, 50, 50], [50, 150, 50], [100, 100, 100]]]
    assert overlay(image, torch.tensor([[0, 1, 1]]), LABELS, strength=1.0)[0, 0].tolist() == [200, 0, 0]


def test_errors_are_striped_where_truth_is_known():
    truth = torch.zeros(30, 40, dtype=torch.int64)
    truth[:, 30:] = VOID
    mask = torch.zeros(30, 40, dtype=torch.int64)
    mask[:10] = 1
    drawn = mark_errors(mask, truth, LABELS)
    white = (drawn == 255).all(-1)
    assert not white[10:].any()
    assert not white[:, 30:].any()
    assert 0.4 < white[:10, :30].double().mean() < 0.6
    assert (drawn[:10, :30][~white[:10, :30]] == torch.tensor([0, 200, 0])).all()  # what was said shows between
    assert (drawn[:, 30:] == 0).all()
    assert (drawn[10:, :30] == torch.tensor([200, 0, 0])).all()


def test_examples_have_a_row_an_image_and_a_column_a_model():
    images = torch.randint(256, (2, 12, 16, 3), dtype=torch.uint8)
    truths = torch.zeros(2, 12, 16, dtype=torch.int64)
    truths[:, 0] = VOID
    good, bad = truths.clone(), torch.ones_like(truths)
    good[0, 1, 0] = 1
    figure = examples(images, truths, {"loope": good, "sinusoid": bad}, LABELS)
    assert len(figure.axes) == 8
    assert [ax.get_title() for ax in figure.axes[:4]] == ["image", "truth", "loope", "sinusoid"]
    assert torch.equal(torch.as_tensor(figure.axes[4].images[0].get_array().data), images[1])
    assert torch.equal(torch.as_tensor(figure.axes[1].images[0].get_array().data), LABELS.paint(truths[0]))
    shown = torch.as_tensor(figure.axes[2].images[0].get_array().data)
    assert torch.equal(shown, mark_errors(good[0], truths[0], LABELS))
    assert [ax.get_xlabel() for ax in figure.axes[2:4]] == [f"{175 / 176:.1%} right", "0.0% right"]
    assert plots.png(figure).startswith(b"\x89PNG")
    with pytest.raises(loope.LoopeError, match=r"'loope' must be \(2, 12, 16\) as the images are, got \(1, 12, 16\)"):
        examples(images, truths, {"loope": good[:1]}, LABELS)


def test_a_legend_names_and_paints_all_classes():
    figure = legend(LABELS, [0.25, 0.75])
    entries = figure.axes[0].get_legend()
    assert [text.get_text() for text in entries.get_texts()] == ["red  25.0%", "green  75.0%"]
    assert [patch.get_facecolor()[:3] for patch in entries.get_patches()] == [(200 / 255, 0, 0), (0, 200 / 255, 0)]
    assert [text.get_text() for text in legend(LABELS).axes[0].get_legend().get_texts()] == ["red", "green"]
    assert plots.png(figure).startswith(b"\x89PNG")
