"""Images that several tests read."""

import pytest

import loope
from loope.data.images.collection import Images
from tests.data.trees import write_pets


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Images:
    """30 images of two classes, no two of one size."""
    root = tmp_path_factory.mktemp("pets")
    write_pets(root)
    return loope.load_images("pets", root)
