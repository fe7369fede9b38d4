"""The explorer and a browser to visit it with: for tests, benchmarks and the documentation's picture."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from loope.explorer.app import create_app
from loope.explorer.server import create_server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def explorer() -> Iterator[str]:
    """The address of the explorer, with its real server, on a free port of this machine."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = create_server(create_app())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def files(folder) -> Iterator[str]:
    """The address of any web server that sends the files of a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


@contextmanager
def browser():
    """Chromium, driven by Playwright. While it is there, Playwright's event loop is the thread's."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
