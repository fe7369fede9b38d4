"""Record the explorer as the animated picture of README.md: `make recording`, with Chromium installed."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import build_explorer
from loope.core.files import write_atomic

FILE = ROOT / "docs" / "images" / "explorer.webp"
SIZE, SHOWN = {"width": 1120, "height": 572}, (840, 429)  # no line is cut at the lower edge
COMPARE = "#compare?grid=14x14&dim=768&e=gilbert&e=sinusoid&e=sincos2d&e=rope_axial"
RESIZE = "#compare?grid=14x14&dim=768&patch=6,4&over=cat&e=gilbert&e=sinusoid&e=sincos2d&e=rope_axial"
ORDER = "#order?grid=6x14&a=gilbert&b=raster"
MOVES = (
    (2, 2),
    (3, 4),
    (4, 6),
    (5, 8),
    (7, 10),
    (9, 9),
    (10, 7),
    (9, 4),
    (7, 2),
    (6, 4),
)
SIDES = (14, 12, 9, 7, 9, 12, 16, 20)  # that the encodings are resized to
STEPS = range(5, 84, 11)  # of 6x14 positions
POINTER = ((0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12))
FRAME, PAUSE = 220, 1200  # milliseconds


def record() -> bytes:
    """Return the recording as an animated WebP."""
    frames, durations = [], []
    with build_explorer.explorer() as address, build_explorer.browser() as chromium:
        page = chromium.new_page(viewport=SIZE, color_scheme="light")
        for scene in (compare, resize, order):
            for picture, pointer in scene(page, address):
                frames.append(drawn(picture, pointer))
                durations.append(FRAME)
            durations[-1] = PAUSE
    buffer = io.BytesIO()
    frames[0].save(
        buffer, "WEBP", save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=80, method=6
    )
    return buffer.getvalue()


def compare(page: Any, address: str) -> Iterator[tuple[bytes, tuple[float, float] | None]]:
    """Hover over the patches of the first map."""
    open_view(page, address + COMPARE)
    for cell in MOVES:
        place = place_of(page, cell)
        page.mouse.move(*place)
        yield page.screenshot(), place


def resize(page: Any, address: str) -> Iterator[tuple[bytes, None]]:
    """Resize the encodings, over an image."""
    open_view(page, address + RESIZE)
    for side in SIDES:
        page.get_by_label("resize").fill(str(side))
        page.wait_for_selector("main[data-ready]")
        yield page.screenshot(), None


def order(page: Any, address: str) -> Iterator[tuple[bytes, None]]:
    """Walk along two curves."""
    open_view(page, address + ORDER)
    slider = page.locator("input[type=range]").first
    for step in STEPS:
        slider.fill(str(step))
        yield page.screenshot(), None


def place_of(page: Any, cell: tuple[int, int]) -> tuple[float, float]:
    """Return the centre of a cell of the first map, of 14x14 cells."""
    box = page.locator("canvas.cells").first.bounding_box()
    row, column = cell
    return box["x"] + (column + 0.5) * box["width"] / 14, box["y"] + (row + 0.5) * box["height"] / 14


def open_view(page: Any, address: str) -> None:
    """Open a view, and wait until it has drawn itself."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main[data-ready]")


def drawn(screenshot: bytes, pointer: tuple[float, float] | None) -> Image.Image:
    """Return the frame with a pointer, which screenshots do not have, at the size of the recording."""
    frame = Image.open(io.BytesIO(screenshot)).convert("RGB")
    if pointer is not None:
        outline = [(pointer[0] + 1.3 * x, pointer[1] + 1.3 * y) for x, y in POINTER]
        ImageDraw.Draw(frame).polygon(outline, fill="black", outline="white", width=2)
    return frame.resize(SHOWN, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    if build_explorer.CHROMIUM is None:
        sys.exit("Recording needs Chromium; install it first.")
    print(f"Written: {write_atomic(FILE, record())}, {FILE.stat().st_size:,} bytes")
