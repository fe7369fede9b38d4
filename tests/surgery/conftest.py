"""Which pairs of model and encoder `make test` covers. A third of the rest are slow tests; all, if LOOPE_ALL is set."""

import os
import zlib
from pathlib import Path

import pytest

COVERING = {"sincos2d", "learned", "loope", "peg", "irpe", "rope_mixed"}  # every hook; static, learned, image-dependent
VARIED = {"ViT, registers", "CrossViT", "HF ViT"}  # both libraries, several prefix tokens, two branches
EXPORTED = {
    "ViT",
    "EVA",
    "HF ViT",
}  # both libraries; without CrossViT, whose graph is three times as large as any other


def is_fast(test: str, name: str, encoder: str) -> bool:
    """Whether `make test` runs a test on this pair.

    Six encoders in every model, every encoder in three models. Compiling and exporting are slow: six encoders in three
    models; exporting also every encoder in a ViT. tests/contract compiles and exports every encoder by itself.
    """
    if test == "test_compile":
        return encoder in COVERING and name in VARIED
    if test.startswith("test_export"):
        return name == "ViT" or (encoder in COVERING and name in EXPORTED)
    return encoder in COVERING or name in VARIED


@pytest.hookimpl(tryfirst=True)  # before pytest deselects slow tests
def pytest_collection_modifyitems(config, items):
    left_out = []
    for item in items:
        if Path(__file__).parent not in item.path.parents or not hasattr(item, "callspec"):
            continue
        name, encoder = (item.callspec.params.get(each) for each in ("name", "encoder"))
        if name and encoder and not is_fast(item.originalname, str(name), str(encoder)):
            item.add_marker(pytest.mark.slow)
            if not os.environ.get("LOOPE_ALL") and zlib.crc32(item.nodeid.encode()) % 3:
                left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
