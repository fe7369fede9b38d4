"""Chromium and the explorer, each started once for a file of tests."""

import pytest

from tests.explorer import servers
from tests.explorer.compare_view import GRID, SHOWN
from tests.explorer.helpers import similarity_of


@pytest.fixture(scope="module")  # not longer: `asyncio.run` must work again in other tests
def chromium():
    """A browser."""
    if servers.CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    pytest.importorskip("playwright")
    with servers.browser() as started:
        yield started


@pytest.fixture(scope="module")
def address():
    """Where the explorer runs."""
    with servers.explorer() as running:
        yield running


@pytest.fixture
def page(chromium):
    """A fresh page. What it complains of, forbidden by its policy or not, fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    made, complaints = context.new_page(), []
    made.set_default_timeout(20_000)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    # What the server refuses is shown in words; the browser logs it besides.
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
    """Encoder -> its similarities, computed by the library."""
    return {name: similarity_of(name, GRID, 768, 12).float() for name in SHOWN}
