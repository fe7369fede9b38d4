"""The picture of docs/explorer.md: the explorer as Chromium shows it."""

import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loope.core.files import write_atomic
from loope.explorer.app import create_app
from loope.explorer.server import create_server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VIEW = "#compare?grid=14x14&dim=768&patch=4,9&pin=1&e=gilbert&e=sinusoid&e=sincos2d&e=rope_axial"


@contextmanager
def explorer(checkpoints: Sequence[Path] = ()) -> Iterator[str]:
    """Serve the explorer, with these checkpoints, on a free local port; yield its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = create_server(create_app(checkpoints=checkpoints))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium with Playwright, whose event loop occupies the calling thread until the browser closes."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def draw(images: Path) -> None:
    """Take the picture if Chromium is installed."""
    if CHROMIUM is None:
        print("Chromium is not installed: keeping the explorer's old picture.")
        return
    with explorer() as address, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address + VIEW)
        page.wait_for_selector("main[data-ready]")
        write_atomic(images / "explorer.png", page.screenshot(full_page=True))
