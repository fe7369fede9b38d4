"""Chromium and the explorer, each started once per module."""

import pytest
from starlette.testclient import TestClient

from loope.explorer import models, queue
from loope.explorer.app import create_app
from tests.explorer import servers
from tests.explorer.compare_view import GRID, SHOWN
from tests.explorer.helpers import similarity_of

PATIENCE = 300  # seconds: a process starts slowly on a busy machine
# In the page: requests do not end by themselves.
NO_HURRY = "AbortSignal.timeout = () => new AbortController().signal"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Raise the limits on time; tests of a limit set it themselves."""
    for name in ("SECONDS", "SECONDS_ELSEWHERE"):
        monkeypatch.setattr(queue, name, PATIENCE)
    for what in models.SECONDS:
        monkeypatch.setitem(models.SECONDS, what, PATIENCE)


@pytest.fixture(scope="module")  # not session: `asyncio.run` of other tests cannot run beside Playwright's event loop
def chromium():
    """Start Chromium."""
    if servers.CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    pytest.importorskip("playwright")
    with servers.browser() as started:
        yield started


@pytest.fixture(scope="module")
def address():
    """Start the explorer; yield its address."""
    with servers.explorer() as running:
        yield running


@pytest.fixture(scope="module")
def client():
    """Start the explorer in this process; return a client of it."""
    with TestClient(create_app(), base_url="http://127.0.0.1") as made:
        yield made


@pytest.fixture
def page(chromium):
    """Open a new page; errors in its console, including policy violations, fail the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    made, complaints = context.new_page(), []
    made.set_default_timeout(1000 * PATIENCE)
    made.add_init_script(NO_HURRY)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    # The page shows refused requests as messages; the browser logs them as well.
    made.on(
        "console",
        lambda message: (
            complaints.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    yield made
    context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def similarities():
    """Compute the similarities of each encoder with the library."""
    return {name: similarity_of(name, GRID, 768, 12).float() for name in SHOWN}
