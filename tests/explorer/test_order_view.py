"""The view of patch orders, in Chromium."""

import io
import re

import pytest
from PIL import Image

import loope
from tests.explorer.browser import click, colours, hover, link, open_view, painted, pixels, ready, until

pytestmark = pytest.mark.browser


def solid_picture(colour):
    out = io.BytesIO()
    Image.new("RGB", (20, 20), colour).save(out, "PNG")
    return out.getvalue()


def test_orders_side_by_side(page, address):
    open_view(page, address, "order?grid=5x6&a=spiral&b=hilbert&at=7")
    spiral, hilbert = (loope.create_order(name, 5, 6) for name in ("spiral", "hilbert"))
    for card, order in enumerate((spiral, hilbert)):
        text = page.locator(".card").nth(card).inner_text()
        row, column = order.path[7].tolist()
        assert f"Position 7 is row {row}, column {column}." in text
        score = order.locality()
        for shown in (f"{score.neighbour_distance:.2f}", f"{100 * score.kept:.1f} %", f"{score.rank_correlation:.3f}"):
            assert shown in text
    slider = page.get_by_label("position on the curve")
    assert (slider.input_value(), slider.get_attribute("max")) == ("7", "29")
    hover(page, 0, (4, 1), (5, 6))
    page.get_by_text(f"Row 4, column 1 is at position {spiral.index[4, 1]}.").wait_for()
    assert f"Row 4, column 1 is at position {hilbert.index[4, 1]}." in page.locator(".card").nth(1).inner_text()
    before = pixels(page, 1, (5, 6))
    slider.fill("20")
    page.mouse.move(0, 0)
    row, column = hilbert.path[20].tolist()
    page.get_by_text(f"Position 20 is row {row}, column {column}.").first.wait_for()
    after = pixels(page, 1, (5, 6))
    assert after != before
    accent = page.evaluate("async () => (await import('./colours.js')).themed('--accent')")
    assert after[row * 6 + column] == tuple(map(int, re.findall(r"\d+", accent)))
    # The curve runs through the middle of each cell that it has passed: its colour says when.
    table = colours(page, "viridis")
    for position in range(1, 19):
        row, column = hilbert.path[position].tolist()
        near = {painted([place], table, 0, 29)[0] for place in (position - 1, position)}
        assert after[row * 6 + column] in near
    click(page, 0, (2, 2), (5, 6))
    assert f"at={spiral.index[2, 2]}" in link(page)
    assert slider.input_value() == str(spiral.index[2, 2].item())
    assert slider.get_attribute("aria-valuetext") == f"position {spiral.index[2, 2]}"
    page.get_by_label("second order", exact=True).select_option("raster")
    ready(page)
    assert "b=raster" in link(page)


def test_walking_along_the_curve(page, address):
    open_view(page, address, "order?grid=3x3&at=0")
    page.get_by_role("button", name="Walk").click()
    page.get_by_text("Position 8 is row").first.wait_for()
    page.get_by_role("button", name="Walk").wait_for()  # it stops at the end
    assert "at=8" in link(page)


def test_a_chosen_image_stays_in_the_browser(page, address, tmp_path):
    path = tmp_path / "red.png"
    path.write_bytes(solid_picture((255, 0, 0)))
    open_view(page, address, "order?grid=4x4&at=0")
    requests = []
    page.on("request", lambda request: requests.append(request.method))
    page.locator("input[type=file]").set_input_files(path)
    until(page, "document.querySelector('canvas').getContext('2d').getImageData(2, 2, 1, 1).data[0] > 240")
    red, green, blue = page.evaluate(
        "[...document.querySelector('canvas').getContext('2d').getImageData(2, 2, 1, 1).data]"
    )[:3]
    assert red > 240 > 100 > max(green, blue)
    assert "POST" not in requests
    (tmp_path / "no.png").write_bytes(b"no image")
    page.locator("input[type=file]").set_input_files(tmp_path / "no.png")
    page.get_by_text("no.png is no image that the browser can read.").wait_for()
