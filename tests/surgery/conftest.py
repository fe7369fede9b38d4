"""Which pairs of model and encoder every change is tested with; the rest are slow tests."""

from pathlib import Path

import pytest

COVERING = {"sincos2d", "learned", "loope", "peg", "irpe", "rope_mixed"}  # every hook, static, learned, of the image
VARIED = {"ViT, registers", "CrossViT", "HF ViT"}  # both libraries, several prefix tokens, two branches


@pytest.hookimpl(tryfirst=True)  # before pytest deselects slow tests
def pytest_collection_modifyitems(items):
    """Keep six encoders in every model and every encoder in three models."""
    for item in items:
        if Path(__file__).parent not in item.path.parents or not hasattr(item, "callspec"):
            continue
        name, encoder = (str(item.callspec.params.get(each)) for each in ("name", "encoder"))
        if "None" not in (name, encoder) and encoder not in COVERING and name not in VARIED:
            item.add_marker(pytest.mark.slow)
