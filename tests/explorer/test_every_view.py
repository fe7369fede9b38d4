"""What all views of the explorer share, in Chromium: what one takes along, looks, safety, the page without a server."""

import re

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.explorer.export import export
from tests.explorer.browser import assert_answers, colours, hover, open_view, ready, run, table_of
from tests.explorer.compare_view import COMPARE, GRID, SHOWN, assert_maps
from tests.explorer.servers import files

pytestmark = pytest.mark.browser


def test_what_is_copied_runs_and_says_the_same(page, address, tmp_path):
    open_view(
        page,
        address,
        "compare?grid=4x6&dim=48&patch=1,2&e=gilbert&e=sinusoid~order~snake&e=rope_axial~temperature~50&e=rope_mixed",
    )
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    scores = page.locator(".scores").all_inner_texts()
    for name, text in zip(("gilbert", "sinusoid snake", "rope_axial 50", "rope_mixed"), scores, strict=True):
        m_u, m_d, ceiling, a_su = re.search(rf"{name}: M_U (\S+), M_D (\S+) of (\S+), A_SU (\S+)", printed).groups()
        assert all(number in text for number in (m_u, m_d, ceiling, a_su))
    page.keyboard.press("Escape")
    open_view(page, address, "order?grid=4x6&a=peano&b=snake")
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    assert f"peano {loope.create_order('peano', 4, 6).locality()}" in printed


def test_pictures_and_tables_to_take_along(page, address, similarities):
    from PIL import Image

    open_view(page, address, COMPARE)
    rows = table_of(page)
    assert len(rows) == 196
    for name, matrix in similarities.items():
        torch.testing.assert_close(torch.tensor([float(row[name]) for row in rows]), matrix[4 * 14 + 9], rtol=0, atol=0)
    for view in (COMPARE, "order?grid=3x4", "loope", "model", "three-cell"):
        open_view(page, address, view)
        with page.expect_download() as made:
            page.get_by_role("button", name="PNG").click()
        assert made.value.suggested_filename == f"loope-{view.split('?')[0]}.png"
        picture = Image.open(made.value.path())
        assert len(picture.convert("RGB").getcolors(10**6)) > 8
        picture.close()


def test_pictures_have_their_own_width_and_a_scale_of_colours(page, address):
    from PIL import Image

    for view, scales in ((COMPARE, 4), ("model", 0)):
        open_view(page, address, view)
        wide = page.evaluate("[...document.querySelectorAll('.card > .grid canvas')].map(({ width }) => width)")
        with page.expect_download() as made:
            page.get_by_role("button", name="PNG").click()
        with Image.open(made.value.path()) as picture:
            assert sum(wide) < picture.width <= sum(wide) + (len(wide) + 1) * 16
            rows = torch.tensor(list(picture.convert("RGB").get_flattened_data())).view(picture.height, -1, 3)
        magma = torch.tensor(colours(page, "magma"))
        # Where a scale starts: its ends are as far apart as the map is wide.
        first, middle, last = (rows[:, at : rows.shape[1] - wide[0] + 1 + at] for at in (0, wide[0] // 2, wide[0] - 1))
        ends = (first == magma[0]).all(-1) & (last == magma[-1]).all(-1)
        found = (ends & ((middle - magma[128]).abs().amax(-1) < 6)).any(0).sum()
        assert found == scales


@pytest.mark.parametrize("view", ["compare", "order", "loope", "model", "three-cell"])
def test_light_dark_and_phones(chromium, address, view, tmp_path):
    grounds = {}
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360)):
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.set_default_timeout(90_000)  # the first one waits for timm
        open_view(page, address, view)
        page.screenshot(path=tmp_path / f"{view}-{scheme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
        assert page.evaluate("[...tabs.children].every((tab) => tab.getBoundingClientRect().right <= innerWidth)")
        canvas = page.locator("canvas.cells").first.bounding_box()
        assert canvas["width"] > 100
        grounds[scheme, width] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.close()
    assert grounds["light", 1280] == grounds["light", 360] != grounds["dark", 1280]


def test_the_policy_stops_what_is_not_the_pages(chromium, address):
    page = chromium.new_page()  # it will complain
    open_view(page, address, "compare?e=none&grid=3x3")
    assert page.evaluate(
        "performance.getEntriesByType('resource').every(({ name }) => name.startsWith(location.origin))"
    )
    blocked = page.evaluate(
        """() => new Promise((done) => {
          addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
          document.body.append(Object.assign(document.createElement("img"), { src: "http://127.0.0.2/x.png" }));
        })"""
    )
    assert blocked == "img-src"
    page.close()


def test_the_exported_page_needs_no_server(page, tmp_path, monkeypatch, similarities):
    monkeypatch.setattr("loope.explorer.export.GRIDS", (Grid(7, 7), Grid(14, 14)))
    monkeypatch.setattr("loope.explorer.export.list_encoders", lambda: list(SHOWN))
    export(tmp_path)
    with files(tmp_path) as address:
        open_view(page, address, COMPARE)
        hover(page, 0, (8, 8), GRID)
        assert_maps(page, similarities, (8, 8))
        page.locator(".card").nth(1).get_by_label("order").select_option("hilbert")
        ready(page)
        assert page.locator(".problem").count() == 0
        page.get_by_label("grid").select_option("7x7")
        ready(page)
        open_view(page, address, "order?grid=7x7&a=gilbert&b=peano")
        assert (
            f"{loope.create_order('peano', 7, 7).locality().neighbour_distance:.2f}"
            in page.locator("main").inner_text()
        )
        open_view(page, address, "three-cell?grid=7x7&cells=0-0-3-4-6-1")
        assert_answers(page, [[0, 0], [3, 4], [6, 1]], Grid(7, 7))
        assert "loope explore" in page.locator(".side .hint").inner_text()
        open_view(page, address, "model")
        assert "its own positions, 16 images" in page.locator(".where").inner_text()
        assert "loope explore" in page.locator(".server").inner_text()
        assert page.get_by_label("images", exact=True).count() == page.locator("input[type=file]").count() == 0
        page.get_by_label("model", exact=True).select_option("shipped")
        ready(page)
        assert "45.5 % position" in page.locator(".where").inner_text()
        open_view(page, address, "model?checkpoint=vit-tiny-loope")
        assert "with loope, 16 images" in page.locator(".where").inner_text()
        open_view(page, address, "model?checkpoint=0123456789abcdef")  # a file, of which nothing is here
        assert "its own positions, 16 images" in page.locator(".where").inner_text()
        page.goto(f"{address}#loope")
        page.get_by_text("pip install 'loope[explore]'").wait_for()


def test_opened_as_a_file_the_page_says_what_it_needs(chromium, tmp_path, monkeypatch):
    monkeypatch.setattr("loope.explorer.export.GRIDS", ())
    export(tmp_path)
    page = chromium.new_page()  # browsers complain about scripts there
    page.goto((tmp_path / "index.html").as_uri())
    page.get_by_text("needs a web server").wait_for(state="visible")
    with files(tmp_path) as address:
        page.goto(f"{address}#loope")
        page.get_by_text("pip install 'loope[explore]'").wait_for()
        assert page.get_by_text("needs a web server").count() == 0
    page.close()
