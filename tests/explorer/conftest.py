"""Chromium and the explorer, each started once per module."""

import pytest
from starlette.testclient import TestClient

from loope.explorer.app import create_app
from tests.explorer import servers
from tests.explorer.compare_view import GRID, SHOWN
from tests.explorer.helpers import similarity_of


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
    made.set_default_timeout(20_000)
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
