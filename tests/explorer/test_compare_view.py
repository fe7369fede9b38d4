"""The view that compares encoders, in Chromium: what is drawn, hovered and typed are the library's numbers."""

import re
import sys
import warnings

import pytest
import torch
from safetensors.torch import save_file

import loope
from loope.core.errors import LoopeWarning
from loope.explorer import models, queue
from loope.pesi_metric.summary import summarize
from tests.explorer.browser import click, colours, hover, link, open_view, painted, pixels, ready, run, until
from tests.explorer.compare_view import COMPARE, GRID, SHOWN, assert_maps, map_of
from tests.explorer.helpers import saved_model, similarity_of

pytestmark = pytest.mark.browser


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
    matrix = similarity_of("sinusoid", (5, 8), 32, 1, order="hilbert").float()
    patch = 5 // 3 * 8 + 2 * 8 // 3
    least, most = matrix.min().item(), matrix.max().item()
    expected = painted(matrix[patch].tolist(), colours(page, "magma"), least, most)
    assert pixels(page, map_of(1), (5, 8)) == expected
    legend = page.locator(".card .legend").nth(1).inner_text().split()
    assert legend == [f"{least:.2f}", f"{most:.2f}"]
    page.get_by_label("one colour scale for all").check()
    others = similarity_of("gilbert", (5, 8), 32, 1).float()
    least, most = min(least, others.min().item()), max(most, others.max().item())
    expected = painted(matrix[patch].tolist(), colours(page, "magma"), least, most)
    assert pixels(page, map_of(1), (5, 8)) == expected
    assert "scale=one" in link(page)
    page.get_by_label("encoding").nth(0).select_option("sincos2d")
    ready(page)
    page.get_by_label("width", exact=True).fill("30")
    page.get_by_label("width", exact=True).press("Tab")
    page.get_by_text("`dim` must be divisible by 4 for 'sincos2d', got 30; use 28 or 32.").wait_for()


@pytest.mark.parametrize(
    "names", [loope.list_encoders()[at : at + 4] for at in range(0, len(loope.list_encoders()), 4)]
)
def test_every_encoder_is_drawn(page, address, names):
    open_view(page, address, "compare?grid=6x9&dim=64" + "".join(f"&e={name}" for name in names))
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


def test_cards_answer_for_themselves(page, address, monkeypatch, tmp_path):
    """While one model is slow to load, the other cards are drawn and its card says that it is loading."""
    monkeypatch.setattr(models, "COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(queue, "SECONDS_ELSEWHERE", 4)
    page.goto(f"{address}#compare?grid=5x5&dim=64&e=timm~vit_stuck&e=gilbert&e=sincos2d")
    cards = page.locator(".card")
    for card in (1, 2):
        cards.nth(card).get_by_text("M_U", exact=True).first.wait_for()
    assert cards.nth(0).locator(".spinner").count() == 1
    assert cards.nth(1).locator(".spinner").count() == 0
    hover(page, map_of(0) + 1, (1, 1), (5, 5))  # the first card has its map only
    page.get_by_text("Patch: row 1, column 1.").wait_for()
    ready(page)
    assert "vit_stuck" in cards.nth(0).get_by_role("alert").inner_text()
    assert cards.nth(0).locator(".spinner").count() == 0
    monkeypatch.setattr(models, "COMMAND", [sys.executable, "-c", "exit(1)"])
    cards.nth(0).get_by_role("button", name="Try again").click()
    until(page, "document.querySelector('.card.waiting') !== null")


def test_legends_of_flat_and_narrow_maps(page, address, tmp_path):
    path = tmp_path / "narrow.safetensors"
    table = 1 + 0.1 * torch.rand(1, 26, 16, generator=torch.Generator().manual_seed(1))
    save_file({"pos_embed": table}, path)
    open_view(page, address, "compare?grid=5x5&dim=64&e=irpe&e=sincos2d")
    irpe, sincos2d = page.locator(".value").all_inner_texts()
    assert not re.search(r"\d", irpe)  # starts at zero: there is nothing to tell but that
    assert re.search(r"\d", sincos2d)
    page.get_by_label("Open a checkpoint").set_input_files(path)
    until(page, "location.hash.includes('file~')")
    ready(page)
    matrix = loope.cosine_similarity(table[0, 1:].view(5, 5, 16))
    least, most = matrix.min().item(), matrix.max().item()
    assert 0 < most - least < 0.1
    assert page.locator(".card .legend").nth(2).inner_text().split() == [f"{least:.3f}", f"{most:.3f}"]


def test_the_focus_stays_in_the_card_whose_file_was_chosen(page, address, tmp_path):
    path = tmp_path / "vit.safetensors"
    save_file({"pos_embed": torch.rand(1, 26, 16, generator=torch.Generator().manual_seed(1))}, path)
    open_view(page, address, "compare?grid=5x5&dim=64&e=none&e=sinusoid&e=gilbert")
    page.get_by_label("encoding").nth(1).focus()
    page.get_by_label("encoding").nth(1).select_option("choose")
    page.locator(".options input[type=file]").set_input_files(path)
    until(page, "location.hash.includes('file~')")
    ready(page)
    assert (
        page.evaluate("[...document.querySelectorAll('.card')].indexOf(document.activeElement.closest('.card'))") == 1
    )
    assert page.evaluate("document.activeElement.ariaLabel") == "encoding"
    page.locator(".card").nth(2).get_by_label("phase").select_option("checkerboard")
    page.locator(".card").nth(2).get_by_label("phase").focus()
    page.locator(".card").nth(2).get_by_label("phase").select_option("channel")
    ready(page)
    assert page.evaluate("document.activeElement.ariaLabel") == "phase"


def test_an_attached_checkpoint_shows_what_acts_and_offers_what_was_set_aside(page, address, tmp_path):
    model = saved_model(tmp_path / "model.safetensors", "rope_mixed")
    open_view(page, address, "compare?grid=3x5&dim=64&e=none")
    page.get_by_label("encoding").select_option("choose")
    page.locator(".options input[type=file]").set_input_files(tmp_path / "model.safetensors")
    until(page, "location.hash.includes('~acts~0')")
    ready(page)
    acting = summarize(loope.encoder_similarity(model.loope.encoders[0][0]), (3, 5))
    table = loope.position_table(tmp_path / "model.safetensors", (3, 5), name="loope.own.pos_embed")
    own = summarize(loope.cosine_similarity(table), (3, 5))
    assert f"{acting.m_u:.4f}" in page.locator(".scores").inner_text()
    for name, scores in (("rope_mixed", acting), ("loope.own.pos_embed, set aside", own)):
        page.get_by_label("encoding").select_option(label=f"{name} (model.safetensors)")
        ready(page)
        assert f"{scores.m_u:.4f}" in page.locator(".scores").inner_text()
        page.get_by_role("button", name="Copy as Python").click()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopeWarning)  # an untrained table has means near zero
            printed = run(page.locator("dialog code").inner_text(), tmp_path)
        assert f"{name} (model.safetensors): M_U {scores.m_u:.4f}" in printed
        page.get_by_role("button", name="Close").click()
