"""Fixtures and settings for all tests, including doctests."""

import os
import signal

import pytest
from _pytest.doctest import DoctestItem
from hypothesis import settings

# No deadline, since machines can be busy. CI is derandomized, so that its failures can be reproduced.
settings.register_profile("loope", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("loope")

# A shell makes background jobs ignore SIGINT; the processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Let Lightning warn in the example that uses it: of its own code, and of loaders without workers."""
    for item in items:
        if item.name == "use-with.md":
            own = (
                "ignore:.*LeafSpec.*:FutureWarning",
                "ignore:.*does not have many workers.*",
                "ignore:.*logging interval.*",
            )
            item.add_marker(pytest.mark.filterwarnings(*own))


@pytest.fixture(autouse=True)
def folder_of_examples(request, tmp_path_factory, monkeypatch):
    """Let examples of the documents write files without leaving any in the project."""
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path_factory.mktemp("example"))


@pytest.fixture(autouse=True)
def no_download(request, monkeypatch):
    """Let examples create pretrained models, without their weights."""
    if isinstance(request.node, DoctestItem) and "pretrained=True" in request.node.dtest.docstring:
        import timm

        create = timm.create_model
        monkeypatch.setattr(timm, "create_model", lambda name, pretrained=False, **options: create(name, **options))


@pytest.fixture(autouse=True)
def restore_registries():
    """Remove what a test or an example has registered."""
    from loope.encoders import base as encoders
    from loope.orders import base as orders

    makers = [registry._makers for registry in (encoders.ENCODERS, orders._CURVES)]
    before = [dict(kept) for kept in makers]
    yield
    for kept, old in zip(makers, before, strict=True):
        kept.clear()
        kept.update(old)
