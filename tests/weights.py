"""Pretrained weights and real data, which are not part of the project; tests that need them may be skipped."""

import os
from pathlib import Path

import pytest


def weights(name: str) -> Path:
    """Return the file in $LOOPE_WEIGHTS, or skip the test."""
    return _found("LOOPE_WEIGHTS", name)


def data(name: str) -> Path:
    """Return the folder in $LOOPE_DATA, or skip the test."""
    return _found("LOOPE_DATA", name)


def _found(variable: str, name: str) -> Path:
    folder = os.environ.get(variable)
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"needs {name} in the folder that {variable} names")
    return Path(folder) / name
