"""Servers and a browser for tests of the explorer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from docs.build_explorer import CHROMIUM, browser, explorer

__all__ = ["CHROMIUM", "browser", "explorer", "files"]


@contextmanager
def files(folder) -> Iterator[str]:
    """Serve the files of a folder as a static web server would; yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
