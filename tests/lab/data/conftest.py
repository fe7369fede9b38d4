"""Images that several tests read."""

import pytest

from loope.lab.data import load_images
from loope.lab.data.classification import Images
from tests.lab.data.dataset_files import write_pets


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Images:
    """30 images of two classes, no two of one size."""
    root = tmp_path_factory.mktemp("pets")
    write_pets(root)
    return load_images("pets", root)
