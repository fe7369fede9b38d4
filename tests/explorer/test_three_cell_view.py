"""The view of the Three-Cell probe, in Chromium."""

import itertools
import json

import pytest
import torch

from loope.core.grid import Grid
from loope.explorer.model import ask, shipped_encoder
from loope.three_cell.questions import answer
from tests.explorer.browser import assert_answers, link, open_view, pixels, position_of, ready, run

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("grid", [(3, 3), (2, 4)])
def test_the_pages_answers_are_the_librarys_for_every_triple(page, address, grid):
    page.goto(address)
    cells = list(itertools.product(range(grid[0]), range(grid[1])))
    triples = list(itertools.permutations(cells, 3))
    answers = page.evaluate(
        "async ([triples, grid]) => { const { answer } = await import('./questions.js');"
        " return triples.map((cells) => answer(cells, grid).bits); }",
        [triples, grid],
    )
    assert answers == answer(torch.tensor(triples), Grid(*grid)).tolist()


def test_dragging_a_cell_changes_the_answers(page, address):
    grid = shipped_encoder().grid
    open_view(page, address, f"three-cell?grid={grid}&cells=4-0-1-2-3-4")
    assert_answers(page, [[4, 0], [1, 2], [3, 4]], grid)
    page.mouse.move(*position_of(page, 0, (1, 2), grid))
    page.mouse.down()
    page.mouse.move(*position_of(page, 0, (3, 3), grid))
    page.mouse.move(*position_of(page, 0, (4, 3), grid))
    page.mouse.up()
    ready(page)
    assert "cells=4-0-4-3-3-4" in link(page)
    assert "moving=green" in link(page)
    assert_answers(page, [[4, 0], [4, 3], [3, 4]], grid)
    seen = pixels(page, 0, grid)
    assert seen[4 * grid[1] + 2] != seen[0]  # the line from red to green
    page.locator("canvas").focus()
    for key in ("b", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    ready(page)
    assert_answers(page, [[4, 0], [4, 3], [2, 3]], grid)
    assert page.locator("#live").inner_text().startswith("blue at row 2, column 3.")


def test_the_model_and_where_it_is_wrong(page, address, tmp_path):
    grid = shipped_encoder().grid
    open_view(page, address, f"three-cell?grid={grid}&cells=4-0-1-2-3-4&moving=red&wrong=1")
    said = json.loads(ask([4, 0, 1, 2, 3, 4], "red"))
    right = [(logit > 0) == bool(bit) for logit, bit in zip(said["logits"], said["label"], strict=True)]
    marks = [line[0] for line in page.locator(".model").all_inner_texts()]
    assert marks == ["✓" if all(right[bit] for bit in bits) else "✗" for bits in ((0, 1), (2,), (3, 4), (5,))]
    tried = [count for count in said["wrong"] if count is not None]
    assert (
        f"errs at {sum(count > 0 for count in tried)} of {len(tried)} places"
        in page.locator(".side .hint").inner_text()
    )
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    assert str(said["label"]) in printed
    assert f"the model: {[int(logit > 0) for logit in said['logits']]}" in printed
    page.keyboard.press("Escape")
    page.get_by_label("grid, height x width").fill("5x9")
    page.get_by_label("grid, height x width").press("Enter")
    page.get_by_text(f"The model was trained on {grid}.").wait_for()


def test_it_opens_with_a_success(page, address):
    page.set_default_timeout(60_000)  # waits for the model
    open_view(page, address, "three-cell")
    assert [line[0] for line in page.locator(".model").all_inner_texts()] == ["✓"] * 4
    assert "cells=" in link(page)


def test_where_the_model_errs_is_offered_on_its_grid(page, address):
    page.set_viewport_size({"width": 360, "height": 800})
    open_view(page, address, "three-cell?cells=4-0-1-2-3-4")
    box = page.get_by_role("checkbox").bounding_box()
    assert box["width"] == box["height"] >= 16
    open_view(page, address, "three-cell?grid=5x9")
    assert page.get_by_role("checkbox").count() == 0
