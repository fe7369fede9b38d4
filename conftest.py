"""Shared by all tests, those in docstrings and documents included."""

import os
import signal

import pytest
from hypothesis import settings

# A busy machine is no failure; and what CI draws, everybody can draw again.
settings.register_profile("loope", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("loope")

# Where tests run in the background a shell has them ignore Ctrl-C, and every process they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def registries_as_they_were():
    """What a test or an example registers is gone after it."""
    from loope.encoders import base as encoders
    from loope.orders import base as orders

    makers = [registry._makers for registry in (encoders._ENCODERS, orders._CURVES)]
    before = [dict(kept) for kept in makers]
    yield
    for kept, old in zip(makers, before, strict=True):
        kept.clear()
        kept.update(old)
