"""The view of a whole model, in Chromium."""

import json

import pytest
import torch
from safetensors.torch import save

from loope.explorer.diagnosis import MEASURED, diagnosis_data, measured_data
from loope.explorer.model import shipped
from tests.explorer.browser import click, hover, link, open_view, pixels, ready, run, table_of, until
from tests.explorer.helpers import picture, saved_model
from tests.explorer.test_diagnosis import joined

pytestmark = pytest.mark.browser
SHIPPED = "model?checkpoint=shipped"  # the model that runs


@pytest.fixture
def page(page):
    page.set_default_timeout(90_000)  # another process loads timm and the model
    return page


def assert_table(page, wanted):
    """What the CSV file says."""
    rows = table_of(page)
    assert [row["layer"] for row in rows] == wanted["layers"]
    shown = torch.tensor([[float(row[part]) for part in ("position", "image", "local")] for row in rows])
    torch.testing.assert_close(shown.T, torch.tensor(list(wanted["parts"].values())), rtol=1e-4, atol=1e-6)
    distance = [
        [float(row[f"distance_{head}"]) for head in range(len(wanted["attention"]["distance"][0]))] for row in rows[1:]
    ]
    torch.testing.assert_close(torch.tensor(distance), torch.tensor(wanted["attention"]["distance"]), rtol=1e-4, atol=0)


def assert_shown(page, wanted, layer):
    """The artefact map of a layer, and what is said of it."""
    for one, other in zip(pixels(page, 1, wanted["grid"]), wanted["colours"][layer], strict=True):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 2
    told = page.locator(".where").inner_text()
    assert f"{wanted['layers'][layer].capitalize()}: {100 * wanted['share'][layer]:.1f} % position" in told
    if layer:
        heads = wanted["attention"]["distance"][layer - 1]
        assert f"heads look {sum(heads) / len(heads):.2f} cells far" in told


def test_it_opens_on_a_model_of_photographs(page, address, tmp_path):
    wanted = json.loads(measured_data("vit-tiny"))
    open_view(page, address, "model")
    assert_table(page, wanted)
    assert_shown(page, wanted, 12)
    assert page.get_by_text("Measured on 16 photographs, which do not ship with the page.").is_visible()
    assert page.get_by_label("images", exact=True).count() == page.locator(".strip").count() == 0
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    for name, share in zip(wanted["layers"], wanted["share"], strict=True):
        assert f"{name}: {share:.1%} position" in printed
    page.keyboard.press("Escape")
    hover(page, 0, (0, 8), (1, 13))
    assert_shown(page, wanted, 8)


def test_what_is_shown_can_be_chosen_and_linked_to(page, address):
    open_view(page, address, "model")
    page.get_by_label("model", exact=True).select_option(label=MEASURED["vit-tiny-loope"])
    ready(page)
    wanted = json.loads(measured_data("vit-tiny-loope"))
    assert_shown(page, wanted, 12)
    click(page, 0, (0, 3), (1, 13))
    shared = link(page)
    assert "checkpoint=vit-tiny-loope" in shared
    page.get_by_label("model", exact=True).select_option(label="tiny ViT, trained on Three-Cell")
    ready(page)
    assert_shown(page, json.loads(diagnosis_data(shipped(), b"", "signed")), 3)
    assert page.get_by_label("images", exact=True).is_visible()
    assert page.locator(".strip canvas").count() == 16
    assert page.get_by_text("photographs").count() == 0
    open_view(page, address, shared.removeprefix("#"))
    assert_shown(page, wanted, 3)


def test_the_shipped_model_and_its_layers(page, address, tmp_path):
    wanted = json.loads(diagnosis_data(shipped(), b"", "signed"))
    open_view(page, address, SHIPPED)
    assert_table(page, wanted)
    assert_shown(page, wanted, 4)
    assert page.locator(".strip canvas").count() == 16
    hover(page, 0, (0, 1), (1, 5))  # the bar of the first block
    assert_shown(page, wanted, 1)
    page.mouse.move(5, 5)
    assert_shown(page, wanted, 4)
    click(page, 2, (0, 2), (4, 4))  # the dots of the third block
    assert "layer=3" in link(page)
    page.mouse.move(5, 5)
    assert_shown(page, wanted, 3)
    page.locator("canvas.cells").first.focus()
    page.keyboard.press("ArrowLeft")
    assert_shown(page, wanted, 2)
    assert "Block 2" in page.locator("#live").inner_text()
    page.locator(".minis figure").first.locator("canvas").click()
    page.mouse.move(5, 5)
    assert_shown(page, wanted, 0)
    open_view(page, address, f"{SHIPPED}&layer=3")
    assert_shown(page, wanted, 3)
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    for name, share in zip(wanted["layers"], wanted["share"], strict=True):
        assert f"{name}: {share:.1%} position" in printed


def test_an_uploaded_model_and_images(page, address, tmp_path):
    model = saved_model(tmp_path / "mine.safetensors", "rope_axial")
    images = [picture(50, 40, seed=seed) for seed in range(3)]
    for number, body in enumerate(images):
        (tmp_path / f"{number}.png").write_bytes(body)
    open_view(page, address, SHIPPED)
    page.locator("input[type=file]").nth(1).set_input_files([tmp_path / f"{number}.png" for number in range(3)])
    until(page, "location.hash.includes('images=own')")
    ready(page)
    assert_shown(page, json.loads(diagnosis_data(shipped(), joined(images), "signed")), 4)
    page.locator("input[type=file]").first.set_input_files(tmp_path / "mine.safetensors")
    until(page, "/checkpoint=[0-9a-f]{16}/.test(location.hash)")
    ready(page)
    wanted = json.loads(diagnosis_data(model, joined(images), "signed"))
    assert_table(page, wanted)
    assert_shown(page, wanted, 1)
    assert "rope_axial, 3 images" in page.locator(".where").inner_text()
    assert page.locator(".strip canvas").count() == 3
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    assert f"block 1: {wanted['share'][1]:.1%} position" in printed
    page.keyboard.press("Escape")
    page.get_by_label("images", exact=True).select_option("built-in")
    ready(page)
    assert_shown(page, json.loads(diagnosis_data(model, b"", "signed")), 1)


def test_what_cannot_be_used_is_said(page, address, tmp_path):
    open_view(page, address, SHIPPED)
    (tmp_path / "one.png").write_bytes(picture())
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "one.png")
    page.get_by_text("from 2 to 16 images").wait_for()
    (tmp_path / "weights.safetensors").write_bytes(save({"pos_embed": torch.rand(1, 17, 8)}))
    page.locator("input[type=file]").first.set_input_files(tmp_path / "weights.safetensors")
    page.get_by_text("was not written by loope.save").wait_for()
