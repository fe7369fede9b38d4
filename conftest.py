"""Shared by all tests, those in docstrings and documents included."""

import os

import pytest
from hypothesis import settings

# A busy machine is no failure; and what CI draws, everybody can draw again.
settings.register_profile("loope", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("loope")


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
