"""Real weights and data for tests that need them: they are not part of the project."""

import os
from pathlib import Path

import pytest


def weights(name: str) -> Path:
    """The file in $LOOPE_WEIGHTS, or a skipped test."""
    return _found("LOOPE_WEIGHTS", name)


def data(name: str) -> Path:
    """The folder in $LOOPE_DATA, or a skipped test."""
    return _found("LOOPE_DATA", name)


def _found(variable: str, name: str) -> Path:
    folder = os.environ.get(variable)
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"needs {name} in the folder that {variable} names")
    return Path(folder) / name
