"""The picture of docs/explorer.md: the explorer as Chromium shows it."""

from pathlib import Path

from loope.core.files import write_atomic
from tests.explorer.servers import CHROMIUM, browser, explorer

VIEW = "#compare?grid=14x14&dim=768&patch=4,9&pin=1&e=gilbert&e=sinusoid&e=sincos2d&e=rope_axial"


def draw(images: Path) -> None:
    """Take it, where there is a browser."""
    if CHROMIUM is None:
        print("No Chromium is installed: the explorer's picture stays as it is.")
        return
    with explorer() as address, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address + VIEW)
        page.wait_for_selector("main[data-ready]")
        write_atomic(images / "explorer.png", page.screenshot(full_page=True))
