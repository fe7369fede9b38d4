"""Real weights for tests that need them: they are not part of the project."""

import os
from pathlib import Path

import pytest


def weights(name: str) -> Path:
    """The file in $LOOPE_WEIGHTS, or a skipped test."""
    folder = os.environ.get("LOOPE_WEIGHTS")
    if not folder or not (Path(folder) / name).is_file():
        pytest.skip(f"needs {name} in the folder that LOOPE_WEIGHTS names")
    return Path(folder) / name
