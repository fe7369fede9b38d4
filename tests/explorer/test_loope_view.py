"""The view of what LOOPE learned, in Chromium."""

import itertools
import re

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.explorer.app import STATIC
from loope.explorer.model import shipped_encoder
from loope.explorer.uploads import read_image, to_pixels
from tests.explorer.browser import colours, hover, open_view, painted, pixels, ready, run, table_of, until
from tests.explorer.helpers import SIZE, picture, saved_model, slow_swaps

pytestmark = pytest.mark.browser


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


def test_loope_on_an_uploaded_image(page, address, tmp_path):
    open_view(page, address, "loope?image=landscape&checkpoint=three-cell")
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


def test_loope_with_an_uploaded_checkpoint(page, address, tmp_path):
    model = saved_model(tmp_path / "mine.safetensors")
    open_view(page, address, "loope?image=three+cells")
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "mine.safetensors")
    until(page, "/checkpoint=[0-9a-f]{16}/.test(location.hash)")
    ready(page)
    rows = table_of(page)
    assert [int(row["x_g"]) for row in rows] == loope.create_order("gilbert", 3, 5).index.flatten().tolist()
    encoder = model.loope.encoders[0][0]
    expected = offsets_on(encoder, (STATIC / "three-cells.png").read_bytes(), (3, 5))
    torch.testing.assert_close(torch.tensor([float(row["x_c"]) for row in rows]), expected)
    saved_model(tmp_path / "other.safetensors", "gilbert")
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "other.safetensors")
    page.get_by_text("gilbert attached, but no LOOPE").wait_for()


def test_moves_in_the_plane(page, address, tmp_path):
    """A rotary encoder that the image refines: arrows to where the offsets say, colours for how far."""
    path, body, grid = tmp_path / "plane.safetensors", picture(90, 60, seed=5), (3, 5)
    model = saved_model(path, "rope_mixed", refine="image")
    encoder = model.loope.encoders[0][0]
    torch.nn.init.normal_(encoder.generator.mixer.weight, std=30.0)
    torch.nn.init.constant_(encoder.generator.mixer.bias, -1.5)  # up and to the left, so that the last arrow is seen
    loope.save(model, path, model_args=SIZE)
    (tmp_path / "noise.png").write_bytes(body)
    open_view(page, address, "loope?image=landscape")
    assert page.locator("canvas.cells").count() == 3
    on_the_curve = page.locator("main h2").all_inner_texts()
    page.locator("input[type=file]").nth(1).set_input_files(path)
    until(page, "/checkpoint=[0-9a-f]{16}/.test(location.hash)")
    page.locator("input[type=file]").first.set_input_files(tmp_path / "noise.png")
    until(page, "location.hash.includes('image=own')")
    ready(page)
    assert page.locator("canvas.cells").count() == 2  # there is no curve to draw a chart of
    assert not set(on_the_curve) & set(page.locator("main h2").all_inner_texts())  # the map is no X_C
    offsets = offsets_on(encoder, body, grid)
    rows = table_of(page)
    shown = torch.tensor([[float(row["row_offset"]), float(row["column_offset"])] for row in rows])
    torch.testing.assert_close(shown, offsets)
    lengths = offsets.norm(dim=-1)
    expected = painted(lengths.tolist(), colours(page, "viridis"), 0, lengths.max().item())
    for one, other in zip(pixels(page, 1, grid), expected, strict=True):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 3
    words = f"Patches move {lengths.mean():.4f} on average, {lengths.max():.4f} at most"
    assert words in page.locator(".where").inner_text()
    # The arrow that is drawn last, half of the way: no other lies over it.
    assert lengths[-1] > 0.3
    middle = (2 + offsets[-1, 0].item() / 2, 4 + offsets[-1, 1].item() / 2)
    drawn = page.evaluate(
        """([row, column]) => {
          const canvas = document.querySelector("canvas.cells"), size = canvas.width / 5;
          return [...canvas.getContext("2d").getImageData((column + 0.5) * size, (row + 0.5) * size, 1, 1).data];
        }""",
        middle,
    )
    assert max(abs(a - b) for a, b in zip(drawn, expected[-1], strict=False)) <= 3
    hover(page, 1, (1, 2), grid)
    down, right = (f"{'+-'[int(value < 0)]} {abs(value):.4f}" for value in offsets[7].tolist())
    told = page.locator(".where").inner_text().replace("−", "-")
    assert told == f"Row 1 {down}, column 2 {right}."
    page.get_by_role("button", name="Copy as Python").click()
    assert words.lower() in run(page.locator("dialog code").inner_text(), tmp_path)


def test_it_opens_with_an_encoder_that_was_trained_on_photographs(page, address):
    """Its moves are small, and the page says how much longer it draws them."""
    open_view(page, address, "loope")
    encoder = shipped_encoder("pets")
    offsets = offsets_on(encoder, (STATIC / "cat.jpg").read_bytes(), encoder.grid)
    rows = table_of(page)
    torch.testing.assert_close(torch.tensor([float(row["x_c"]) for row in rows]), offsets)
    most = offsets.abs().max().item()
    times = int(re.search(r"drawn (\d+) times", page.locator("main").inner_text())[1])
    assert 0.4 <= times * most <= 1
    # The longest arrow is drawn as far as it says: its colour is found at two thirds of its length.
    cell = offsets.abs().argmax().item()
    along = loope.create_order("gilbert", *encoder.grid)
    step = 1 if offsets[cell] > 0 else -1
    place = along.index.flatten()[cell].item() + step
    there = torch.tensor([cell // 14, cell % 14]), along.path[place]
    row, column = (there[0] + (there[1] - there[0]) * times * most * 0.67).tolist()
    drawn = page.evaluate(
        """([row, column]) => {
          const canvas = document.querySelector("canvas.cells"), size = canvas.width / 14;
          return [...canvas.getContext("2d").getImageData((column + 0.5) * size, (row + 0.5) * size, 1, 1).data];
        }""",
        (row, column),
    )
    wanted = colours(page, "coolwarm")[255 if step > 0 else 0]
    assert max(abs(a - b) for a, b in zip(drawn, wanted, strict=False)) <= 3


@pytest.mark.parametrize("checkpoint", ["", "pets-plane"])
def test_what_is_copied_of_the_opening_runs(page, address, tmp_path, checkpoint):
    """In a folder that is empty, with the numbers of the page."""
    open_view(page, address, f"loope?checkpoint={checkpoint}" if checkpoint else "loope")
    columns = ("row_offset", "column_offset") if checkpoint else ("x_c",)
    shown = torch.tensor([[float(row[name]) for name in columns] for row in table_of(page)])
    page.get_by_role("button", name="Copy as Python").click()
    printed = run(page.locator("dialog code").inner_text(), tmp_path)
    lengths = shown.norm(dim=-1)
    assert lengths.max() > 0
    assert f"{lengths.mean():.4f}" in printed
    assert f"{lengths.max():.4f}" in printed
    grid = shipped_encoder(checkpoint or "pets").grid
    assert str(shown.view(*grid, *(2,) * bool(checkpoint))) in printed


def test_a_move_too_short_for_an_arrow_is_a_dot(page, address):
    page.goto(address)
    drawn = page.evaluate(
        """async () => {
          const { drawMoves } = await import("./draw-offsets.js"), drawn = [];
          const map = { size: 40, context: {}, picture() {}, centre: () => [0, 0] };
          map.arrow = (from, to) => drawn.push(to[1]);
          map.dot = (x, y, radius, fill) => drawn.push(fill);
          const offsets = [[0.1, 0], [0.2, 0]], value = (cell) => offsets[cell][0];
          drawMoves(map, { plane: true, most: 0.2, times: 1, data: { offsets }, image: {}, value });
          return drawn;
        }"""
    )
    dot, *arrow = drawn
    assert dot.startswith("rgb(")  # in the colour of its length, 4 pixels
    assert arrow == ["#000", 8, 8]
