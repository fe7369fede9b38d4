"""The explorer in Chromium: each view is opened, hovered, clicked and typed into, and shows the library's numbers."""

import base64
import io
import itertools
import json
import re

import pytest
import torch
from safetensors.torch import save_file

import loope
from loope.core.grid import Grid
from loope.core.three_cell import in_words
from loope.data.three_cell.questions import answer
from loope.explorer.export import export
from loope.explorer.model import ask, shipped_encoder
from loope.explorer.uploads import read_image, to_pixels
from tests.explorer.reading import picture, saved_model, similarity_of, slow_swaps
from tests.explorer.seeing import (
    click,
    colours,
    hover,
    link,
    open_view,
    painted,
    pixels,
    ready,
    run,
    spot,
    table_of,
    until,
)
from tests.explorer.serving import files

pytestmark = pytest.mark.browser
GRID = (14, 14)
SHOWN = ("gilbert", "sinusoid", "sincos2d", "rope_axial")
COMPARE = "compare?grid=14x14&dim=768&patch=4,9" + "".join(f"&e={name}" for name in SHOWN)
MAPS, MINIS = 4, 3  # canvases of a card: its map, then three maps of PESI


@pytest.fixture(scope="module")
def similarities():
    return {name: similarity_of(name, GRID, 768, 12).float() for name in SHOWN}


def map_of(card):
    """The number of a card's similarity map among the page's canvases."""
    return card * MAPS


def assert_maps(page, similarities, patch):
    table = colours(page, "magma")
    least = min(matrix.min().item() for matrix in similarities.values())
    most = max(matrix.max().item() for matrix in similarities.values())
    for card, matrix in enumerate(similarities.values()):
        row = matrix[patch[0] * GRID[1] + patch[1]].tolist()
        assert pixels(page, map_of(card), GRID) == painted(row, table, least, most)


def test_hovering_redraws_every_map_and_clicking_pins(page, address, similarities):
    open_view(page, address, COMPARE)
    assert_maps(page, similarities, (4, 9))
    hover(page, map_of(1), (11, 2), GRID)
    page.get_by_text("Patch: row 11, column 2.").wait_for()
    assert_maps(page, similarities, (11, 2))
    click(page, map_of(2), (3, 3), GRID)
    hover(page, map_of(0), (7, 10), GRID)
    page.get_by_text("From row 3, column 3 to row 7, column 10.").wait_for()
    assert_maps(page, similarities, (3, 3))  # pinned: hovering reads
    for card, matrix in enumerate(similarities.values()):
        value = matrix[3 * 14 + 3, 7 * 14 + 10].item()
        assert page.locator(".value").nth(card).inner_text() == f"{value:.4f}"
    assert "patch=3,3" in link(page)
    assert "pin=1" in link(page)
    click(page, map_of(2), (3, 3), GRID)  # and let go
    hover(page, map_of(0), (0, 13), GRID)
    assert_maps(page, similarities, (0, 13))


def test_a_link_shows_the_same(page, address, chromium, similarities):
    open_view(page, address, COMPARE)
    click(page, map_of(0), (12, 1), GRID)
    other = chromium.new_page()
    other.goto(address + link(page))
    ready(other)
    assert_maps(other, similarities, (12, 1))
    assert pixels(other, map_of(3), GRID) == pixels(page, map_of(3), GRID)
    other.close()


def test_pesi_stands_below_each_with_ceilings_and_maps(page, address):
    open_view(page, address, COMPARE)
    shown = page.locator(".scores")
    for card, name in enumerate(SHOWN):
        scores = loope.pesi_from_similarity(similarity_of(name, GRID, 768, 12), GRID)
        text = shown.nth(card).inner_text()
        for value in (scores.m_u, scores.m_d, scores.a_su, torch.tensor(scores.m_d_ceiling)):
            assert f"{value:.4f}" in text
        assert f"{scores.maps.m_d[4, 9]:.3f}" in text
    assert "1.9670 · 1.2897 · 0.0945" in shown.nth(0).inner_text()
    everyone = [loope.pesi_from_similarity(similarity_of(name, GRID, 768, 12), GRID).maps.m_u.float() for name in SHOWN]
    least = min(m.min().item() for m in everyone)
    for card, m_u in enumerate(everyone):
        expected = painted(m_u.flatten().tolist(), colours(page, "viridis"), least, 2)
        assert pixels(page, map_of(card) + 1, GRID) == expected


def test_choosing_encoders_options_grid_and_width(page, address):
    open_view(page, address, "compare?grid=7x7&dim=64&e=gilbert&e=learned")
    assert page.locator(".card").count() == 2
    page.get_by_role("button", name="Compare one more").click()
    ready(page)
    page.get_by_label("encoding").nth(2).select_option("sinusoid")
    ready(page)
    page.locator(".card").nth(2).get_by_label("order").select_option("hilbert")
    ready(page)
    page.get_by_label("grid, height x width").fill("5x8")
    page.get_by_label("grid, height x width").press("Enter")
    ready(page)
    page.get_by_label("width", exact=True).fill("32")
    page.get_by_label("width", exact=True).press("Tab")
    ready(page)
    page.get_by_label("Remove learned").click()
    ready(page)
    assert re.search(r"grid=5x8&dim=32&.*e=gilbert&e=sinusoid~order~hilbert$", link(page))
    page.get_by_label("own colour scale for each").check()
    matrix = similarity_of("sinusoid", (5, 8), 32, 1, order="hilbert").float()
    patch = 5 // 3 * 8 + 2 * 8 // 3
    least, most = matrix.min().item(), matrix.max().item()
    expected = painted(matrix[patch].tolist(), colours(page, "magma"), least, most)
    assert pixels(page, map_of(1), (5, 8)) == expected
    page.get_by_label("encoding").nth(0).select_option("sincos2d")
    ready(page)
    page.get_by_label("width", exact=True).fill("30")
    page.get_by_label("width", exact=True).press("Tab")
    page.get_by_text("`dim` must be divisible by 4 for 'sincos2d', got 30; use 28 or 32.").wait_for()


@pytest.mark.parametrize(
    "names", [loope.list_encoders()[at : at + 4] for at in range(0, len(loope.list_encoders()), 4)]
)
def test_every_encoder_is_drawn(page, address, names):
    open_view(page, address, "compare?grid=6x9&dim=64&scale=each" + "".join(f"&e={name}" for name in names))
    assert page.locator(".problem").count() == 0
    patch = 2 * 9 + 6
    for card, name in enumerate(names):
        matrix = similarity_of(name, (6, 9), 64, 1).float()
        least, most = matrix.min().item(), matrix.max().item()
        table = colours(page, "magma")
        flat = [table[128]] * 54  # all alike: one colour
        expected = painted(matrix[patch].tolist(), table, least, most) if most > least else flat
        assert pixels(page, map_of(card), (6, 9)) == expected


def test_a_models_own_table_travels_without_the_model(page, address, tmp_path):
    table = torch.rand(1, 26, 16, generator=torch.Generator().manual_seed(1))
    path = tmp_path / "vit.safetensors"
    save_file({"blocks.0.weight": torch.zeros(1000, 1000), "pos_embed": table, "head": torch.zeros(9)}, path)
    open_view(page, address, "compare?grid=7x7&dim=64&e=none")
    page.get_by_label("encoding").select_option("choose")
    with page.expect_request("**/api/file.json") as sent:
        page.locator(".options input[type=file]").set_input_files(path)
    until(page, "location.hash.includes('file~')")
    ready(page)
    assert (
        0 < int(sent.value.all_headers()["content-length"]) < 4 * table.numel() + 1000
    )  # the file has four million bytes
    matrix = loope.cosine_similarity(table[0, 1:].view(5, 5, 16)).float()
    expected = painted(
        matrix[5 // 3 * 5 + 10 // 3].tolist(), colours(page, "magma"), matrix.min().item(), matrix.max().item()
    )
    assert pixels(page, 0, (5, 5)) == expected
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    assert f"vit.safetensors: M_U {loope.pesi_from_similarity(matrix.double(), 5).m_u:.3f}"[:-1] in printed
    page.get_by_role("button", name="Close").click()
    page.get_by_label("encoding").select_option("choose")
    (tmp_path / "not.safetensors").write_bytes(b"something else entirely")
    page.locator(".options input[type=file]").set_input_files(tmp_path / "not.safetensors")
    page.get_by_text("not.safetensors is no .safetensors file").wait_for()


def test_the_keyboard_does_what_the_pointer_does(page, address, similarities):
    open_view(page, address, COMPARE)
    canvas = page.get_by_label("Similarity map of sinusoid")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert_maps(page, similarities, (6, 10))
    heard = page.locator("#live").inner_text()
    low = similarities["gilbert"][6 * 14 + 10].min().item()
    assert heard.startswith("Patch: row 6, column 10.")
    assert f"gilbert {low:.3f} to 1.000" in heard
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    heard = page.locator("#live").inner_text()
    assert "From row 6, column 10 to row 6, column 9." in heard
    assert f"sinusoid {similarities['sinusoid'][94, 93].item():.4f}" in heard
    page.keyboard.press("Escape")
    for _ in range(20):
        page.keyboard.press("ArrowUp")  # stops at the edge
    assert "patch=0,10" in link(page)
    assert "pin" not in link(page)
    # Everything can be reached by Tab, and says what it is.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('select, input, button, canvas, a')")
    unnamed = page.evaluate(
        "[...document.querySelectorAll('canvas, input, select, button')].filter((e) => "
        "!(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).length"
    )
    assert unnamed == 0


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


def test_an_order_over_ones_own_image_which_stays_in_the_browser(page, address, tmp_path):
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


def solid_picture(colour):
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (20, 20), colour).save(out, "PNG")
    return out.getvalue()


def offsets_on(encoder, body, grid):
    size = Grid(grid[0] * encoder.patch_size, grid[1] * encoder.patch_size)
    with torch.no_grad():
        return encoder.offsets(to_pixels(read_image(body), size, "signed"), grid)[0]


def assert_heat(page, offsets, grid):
    """The cells' colours; a link between those that change places lies over their middles."""
    index = loope.create_order("gilbert", *grid).index.flatten()
    swapped = slow_swaps(index.tolist(), (index + offsets).tolist())
    linked = set(itertools.chain(*swapped))
    assert linked == {number for number, row in enumerate(table_of(page)) if row["swapped"] == "1"}
    most = offsets.abs().max().item()
    expected = painted(offsets.tolist(), colours(page, "coolwarm"), -most, most)
    seen = pixels(page, 1, grid)
    for cell, (one, other) in enumerate(zip(seen, expected, strict=True)):
        if cell in linked:
            assert one == (255, 225, 77)
        else:
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 3  # float32 on the way to 256 colours
    return swapped


def test_loope_on_ones_own_image(page, address, tmp_path):
    open_view(page, address, "loope?image=landscape")
    before = pixels(page, 1, shipped_encoder().grid)
    body = picture(90, 60, seed=5)
    (tmp_path / "noise.png").write_bytes(body)
    page.locator("input[type=file]").first.set_input_files(tmp_path / "noise.png")
    until(page, "location.hash.includes('image=own')")
    ready(page)
    grid, offsets = shipped_encoder().grid, offsets_on(shipped_encoder(), body, shipped_encoder().grid)
    assert pixels(page, 1, grid) != before
    swapped = assert_heat(page, offsets, grid)
    words = (
        f"Patches move {offsets.abs().mean():.4f} on average, {offsets.abs().max():.4f} at most; {len(swapped)} pair"
    )
    assert words[:-6] in page.locator(".where").inner_text()
    hover(page, 1, (2, 3), grid)
    index = loope.create_order("gilbert", *grid).index[2, 3].item()
    sign, moved = "+-"[int(offsets[2 * grid[1] + 3] < 0)], offsets[2 * grid[1] + 3].abs()
    shown = page.locator(".where").inner_text().replace("−", "-")
    assert shown.startswith(f"Row 2, column 3: position {index} {sign} {moved:.4f}")
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    assert f"patches move {offsets.abs().mean():.4f} on average, {offsets.abs().max():.4f} at most" in printed
    page.keyboard.press("Escape")
    page.get_by_label("grid, height x width").fill("4x9")
    page.get_by_label("grid, height x width").press("Enter")
    ready(page)
    assert_heat(page, offsets_on(shipped_encoder(), body, (4, 9)), (4, 9))


def test_loope_with_ones_own_checkpoint(page, address, tmp_path):
    model = saved_model(tmp_path / "mine.safetensors")
    open_view(page, address, "loope?image=three+cells")
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "mine.safetensors")
    until(page, "/checkpoint=[0-9a-f]{16}/.test(location.hash)")
    ready(page)
    rows = table_of(page)
    assert [int(row["x_g"]) for row in rows] == loope.create_order("gilbert", 3, 5).index.flatten().tolist()
    encoder = model.loope.encoders[0][0]
    sample = page.evaluate(
        "async () => (await import('./images.js')).sample('three cells').bitmap.toDataURL().split(',')[1]"
    )
    expected = offsets_on(encoder, base64.b64decode(sample), (3, 5))
    torch.testing.assert_close(torch.tensor([float(row["x_c"]) for row in rows]), expected)
    saved_model(tmp_path / "other.safetensors", "gilbert")
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "other.safetensors")
    page.get_by_text("gilbert attached, but no LOOPE").wait_for()


@pytest.mark.parametrize("grid", [(3, 3), (2, 4)])
def test_the_pages_answers_are_the_librarys_for_every_triple(page, address, grid):
    page.goto(address)
    cells = list(itertools.product(range(grid[0]), range(grid[1])))
    triples = list(itertools.permutations(cells, 3))
    told = page.evaluate(
        "async ([triples, grid]) => { const { answer } = await import('./questions.js');"
        " return triples.map((cells) => answer(cells, grid).bits); }",
        [triples, grid],
    )
    assert told == answer(torch.tensor(triples), Grid(*grid)).tolist()


def test_dragging_a_cell_changes_the_answers(page, address):
    grid = shipped_encoder().grid
    open_view(page, address, f"three-cell?grid={grid}&cells=4-0-1-2-3-4")
    assert_answers(page, [[4, 0], [1, 2], [3, 4]], grid)
    page.mouse.move(*spot(page, 0, (1, 2), grid))
    page.mouse.down()
    page.mouse.move(*spot(page, 0, (3, 3), grid))
    page.mouse.move(*spot(page, 0, (4, 3), grid))
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


def assert_answers(page, cells, grid):
    label = answer(torch.tensor([cells]), grid)[0].tolist()
    text = page.locator(".questions").inner_text()
    for words in in_words(label).values():
        assert words.lower() in text.lower()


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
    for view in (COMPARE, "order?grid=3x4", "loope", "three-cell"):
        open_view(page, address, view)
        with page.expect_download() as made:
            page.get_by_role("button", name="PNG").click()
        assert made.value.suggested_filename == f"loope-{view.split('?')[0]}.png"
        picture = Image.open(made.value.path())
        assert len(picture.convert("RGB").getcolors(10**6)) > 8
        picture.close()


@pytest.mark.parametrize("view", ["compare", "order", "loope", "three-cell"])
def test_light_dark_and_phones(chromium, address, view, tmp_path):
    grounds = {}
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360)):
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        open_view(page, address, view)
        page.screenshot(path=tmp_path / f"{view}-{scheme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
        canvas = page.locator("canvas").first.bounding_box()
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
        page.goto(f"{address}#loope")
        page.get_by_text("pip install 'loope[explore]'").wait_for()
