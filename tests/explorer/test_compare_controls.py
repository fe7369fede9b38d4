"""Compare's controls in Chromium: resizing, a picture under the maps, and trained checkpoints beside the others."""

import re
import warnings

import pytest
import torch

import loope
from loope.core.errors import LoopeWarning
from loope.core.grid import Grid
from loope.pesi_metric.summary import summarize
from tests.explorer.browser import colours, link, open_view, painted, pixels, ready, run, until
from tests.explorer.compare_view import assert_maps, map_of
from tests.explorer.helpers import saved_model
from tests.explorer.servers import explorer

pytestmark = pytest.mark.browser


def resized(name, made, grid, dim=64):
    torch.manual_seed(0)
    encoder = loope.create_encoder(name, dim, made, patch_size=16, heads=1, depth=12)
    return loope.encoder_similarity(encoder.resize(grid)).float()


def test_the_slider_resizes_every_encoding(page, address, tmp_path):
    open_view(page, address, "compare?grid=4x6&dim=64&patch=1,4&e=learned&e=rope_axial")
    slider = page.get_by_label("resize")
    for side in (7, 9, 10, 12):  # faster than answers arrive
        slider.fill(str(side))
    ready(page)
    shown = {name: resized(name, (4, 6), (8, 12)) for name in ("learned", "rope_axial")}
    assert_maps(page, shown, (3, 9), (8, 12))  # the same place of the image
    assert "grid=4x6&to=8x12" in link(page)
    scores = summarize(shown["learned"].double(), (8, 12))
    assert f"{scores.m_u:.4f}" in page.locator(".scores").first.inner_text()
    page.get_by_role("button", name="Copy as Python").click()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopeWarning)  # an untrained table has means near zero
        printed = run(page.locator("dialog code").inner_text(), tmp_path)
    assert f"learned: M_U {scores.m_u:.4f}" in printed
    page.keyboard.press("Escape")
    slider.fill("6")
    ready(page)
    assert "patch=1,4" in link(page)
    assert "to=" not in link(page)
    open_view(page, address, "compare?grid=4x6&to=8x12&dim=64&patch=3,9&e=learned&e=rope_axial")
    assert_maps(page, shown, (3, 9), (8, 12))


def test_a_picture_under_the_maps(page, address, tmp_path):
    """Colours are those of the map over the picture in grey, so the map is seen through it."""
    from PIL import Image

    Image.new("RGB", (8, 8), (40, 200, 90)).save(tmp_path / "green.png")
    grey = 0.2126 * 40 + 0.7152 * 200 + 0.0722 * 90
    open_view(page, address, "compare?grid=5x5&dim=64&patch=2,2&e=sincos2d")
    before = pixels(page, 0, (5, 5))
    page.get_by_label("Choose an image").set_input_files(tmp_path / "green.png")
    until(page, "location.hash.includes('over=own')")
    ready(page)
    for plain, over in zip(before, pixels(page, 0, (5, 5)), strict=True):
        assert max(abs(0.6 * a + 0.4 * grey - b) for a, b in zip(plain, over, strict=True)) <= 3
    page.get_by_label("drawn over").select_option("nothing")
    ready(page)
    assert pixels(page, 0, (5, 5)) == before


def test_an_opened_checkpoint_stands_beside_the_others(page, address, tmp_path):
    model = saved_model(tmp_path / "mine.safetensors", "rope_mixed")
    encoder = model.loope.encoders[0][0]
    torch.nn.init.uniform_(next(encoder.parameters()), -1, 1)  # trained
    loope.save(
        model, tmp_path / "mine.safetensors", model_args={"patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2}
    )
    open_view(page, address, "compare?grid=3x5&dim=64&e=sincos2d")
    page.get_by_label("Open a checkpoint").set_input_files(tmp_path / "mine.safetensors")
    until(page, "location.hash.includes('~acts~0')")
    ready(page)
    expected = loope.encoder_similarity(encoder, Grid(3, 5)).float()
    patch = [int(part) for part in link(page).split("patch=")[1].split("&")[0].split(",")]
    row = expected[patch[0] * 5 + patch[1]].tolist()
    wanted = painted(row, colours(page, "magma"), expected.min().item(), expected.max().item())
    assert pixels(page, map_of(1), (3, 5)) == wanted
    page.get_by_label("Remove sincos2d").click()
    page.get_by_label("resize").fill("10")
    for name in ("rope_mixed", "loope.own.pos_embed, set aside"):  # an encoder and a table, resized
        page.get_by_label("encoding").select_option(label=f"{name} (mine.safetensors)")
        ready(page)
        assert "to=6x10" in link(page)
        page.get_by_role("button", name="Copy as Python").click()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopeWarning)
            printed = run(page.locator("dialog code").inner_text(), tmp_path)
        shown = re.search(r"M_U\s+(\S+) of", page.locator(".scores").inner_text())[1]
        assert f"{name} (mine.safetensors): M_U {shown}," in printed
        page.get_by_role("button", name="Close").click()
    (tmp_path / "text.safetensors").write_text("something else")
    page.get_by_label("Open a checkpoint").set_input_files(tmp_path / "text.safetensors")
    page.get_by_text("text.safetensors is no .safetensors file").wait_for()


def test_named_checkpoints_come_first(page, tmp_path):
    saved_model(tmp_path / "mine.safetensors", "alibi2d")
    with explorer([tmp_path / "mine.safetensors"]) as address:
        open_view(page, address, "compare?grid=3x5")
        cards = page.locator(".card")
        assert cards.count() == 4
        assert cards.first.get_attribute("aria-label") == "alibi2d (mine.safetensors)"
        assert page.locator(".problem").count() == 0


def test_phones_get_words_for_touching(chromium, address):
    words = {}
    for phone in (False, True):
        page = chromium.new_page(viewport={"width": 390, "height": 844}, has_touch=phone, is_mobile=phone)
        page.set_default_timeout(60_000)
        for view in ("compare?grid=3x3&e=none", "order?grid=3x3", "three-cell", "loope", "model"):
            open_view(page, address, view)
            words[view, phone] = page.locator(".lede").inner_text().lower()
        open_view(page, address, "compare?grid=3x3&dim=8&e=sincos2d")
        box = page.locator("canvas.cells").first.bounding_box()
        if phone:
            page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] * 5 / 6)
            page.get_by_text("Pinned: row 2, column 1.", exact=True).wait_for()
        page.close()
    for (view, phone), text in words.items():
        assert ("tap" in text) == phone, (view, text)
        assert not (phone and any(word in text for word in ("hover", "click", "pointer", "keyboard"))), (view, text)


def test_a_tap_on_a_name_explains_it(chromium, address):
    page = chromium.new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    for view, names in (("compare?grid=3x3&dim=8&e=sincos2d", 5), ("order?grid=3x3", 6)):
        open_view(page, address, view)
        terms, told = page.locator("dt button"), page.locator("dd.help")
        assert terms.count() == told.count() == names
        for number in range(names):
            assert not told.nth(number).is_visible()
            terms.nth(number).tap()
            assert told.nth(number).is_visible()
            assert len(told.nth(number).inner_text()) > 20
            assert terms.nth(number).get_attribute("aria-expanded") == "true"
        terms.first.tap()
        assert not told.first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_it_opens_over_a_photograph(page, address):
    """A link says what it is over; without that it is over nothing, as the colours of a map alone are its values."""
    open_view(page, address, "compare")
    assert page.get_by_label("drawn over").input_value() == "cat"
    page.get_by_label("drawn over").select_option("nothing")
    ready(page)
    open_view(page, address, link(page).removeprefix("#"))
    assert page.get_by_label("drawn over").input_value() == "nothing"
