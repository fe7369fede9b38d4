"""Use the page as a visitor does: open views, hover and click cells, read pixels and tables."""

import contextlib
import csv
import io
import math
import os
import re
import time
from pathlib import Path

import torch

from loope.three_cell.bits import in_words
from loope.three_cell.questions import answer

RGB = re.compile(r"rgb\((\d+) (\d+) (\d+)\)")


def open_view(page, address, view):
    """Open a view and wait until it is drawn."""
    page.goto("about:blank")  # a change of the hash alone would not reload the page
    page.goto(f"{address}#{view}")
    ready(page)


def link(page):
    """Return the hash of the page's address."""
    return page.evaluate("location.hash")


def ready(page):
    """Wait until the view has been drawn."""
    page.wait_for_selector("main[data-ready]")


def until(page, expression):
    """Wait until a JavaScript expression holds. Playwright's own wait uses eval, which the page's policy forbids."""
    ends = time.monotonic() + 300
    while time.monotonic() < ends:
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"still false: {expression}")


def position_of(page, number, cell, grid):
    """Return the screen position of the centre of a cell."""
    canvas = page.locator("canvas.cells").nth(number)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    row, column = cell
    return box["x"] + (column + 0.5) * box["width"] / grid[1], box["y"] + (row + 0.5) * box["height"] / grid[0]


def hover(page, number, cell, grid):
    """Move the pointer to a cell."""
    page.mouse.move(*position_of(page, number, cell, grid))


def click(page, number, cell, grid):
    """Click a cell."""
    page.mouse.click(*position_of(page, number, cell, grid))


def pixels(page, number, grid):
    """Read the colour at the centre of every cell, `[(r, g, b), ...]`, row-major."""
    return [
        tuple(rgb)
        for rgb in page.evaluate(
            """([number, rows, columns]) => {
          const canvas = document.querySelectorAll("canvas.cells")[number];
          const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const size = canvas.width / columns;
          return Array.from({ length: rows * columns }, (_, cell) => {
            const [row, column] = [Math.floor(cell / columns), cell % columns];
            const x = Math.floor((column + 0.5) * size), y = Math.floor((row + 0.5) * size);
            return [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)];
          });
        }""",
            [number, *grid],
        )
    ]


def colours(page, name):
    """Read the 256 colours of one of the page's scales."""
    made = page.evaluate("async (name) => (await import('./colours.js')).TABLES[name]", name)
    return [tuple(map(int, RGB.fullmatch(text).groups())) for text in made]


def painted(values, table, least, most):
    """Compute the expected colours of values."""
    return [table[max(0, min(255, math.floor(255 * (value - least) / (most - least) + 0.5)))] for value in values]


def run(code, folder):
    """Run a script in a folder; return what it prints."""
    printed, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "copied.py", "exec"), {"__name__": "__main__"})  # noqa: S102
    finally:
        os.chdir(before)
    return printed.getvalue()


def table_of(page):
    """Download the view's CSV file; return its rows."""
    with page.expect_download() as made:
        page.get_by_role("button", name="CSV").click()
    return list(csv.DictReader(made.value.path().read_text().splitlines()))


def assert_answers(page, cells, grid):
    """Check that the page shows the library's answers for these cells."""
    label = answer(torch.tensor([cells]), grid)[0].tolist()
    text = page.locator(".questions").inner_text()
    for words in in_words(label).values():
        assert words.lower() in text.lower()
