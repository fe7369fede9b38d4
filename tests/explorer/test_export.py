"""The page as static files: what the server would send, under the same addresses."""

import json
import re

import pytest
from PIL import Image
from starlette.testclient import TestClient

import loope
from loope.core.grid import Grid
from loope.explorer import export as module
from loope.explorer.app import STATIC, create_app
from loope.explorer.diagnosis import MEASURED, measured_data


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as fewer:
        fewer.setattr(module, "GRIDS", (Grid(3, 4),))
        fewer.setattr(module, "DIM", 128)
        shares = []
        count = module.export(folder, shares.append)
    assert count == len([path for path in folder.rglob("*") if path.is_file()])
    assert shares == sorted(shares)
    assert shares[-1] == 1
    return folder


def test_files_are_what_the_server_sends(exported):
    with TestClient(create_app(), base_url="http://localhost") as client:
        for path in exported.rglob("*"):
            name = path.relative_to(exported).as_posix()
            if path.is_file() and name != "api/catalog.json":
                assert client.get(f"/{name}").content == path.read_bytes(), name


def test_the_images_are_exported_and_small(exported):
    names = re.findall(r'"([\w-]+\.(?:jpg|png))"', (STATIC / "images.js").read_text())
    assert len(names) == 3
    for name in names:
        assert 0 < (exported / name).stat().st_size < 25_000
        with Image.open(exported / name) as image:
            assert image.width == image.height >= 224


def test_what_the_page_offers_is_there(exported):
    catalog = json.loads((exported / "api/catalog.json").read_text())
    assert catalog["free"] is False
    assert catalog["model"] is None
    assert (catalog["grids"], catalog["dims"]) == (["3x4"], [128])
    assert [row["name"] for row in catalog["encoders"]] == loope.list_encoders()
    for encoder in catalog["encoders"]:
        assert (exported / f"api/similarity/{encoder['name']}/3x4/128.bin").is_file()
        for option in encoder["options"]:
            for value in set(option["choices"]) - {option["default"]}:
                assert (exported / f"api/similarity/{encoder['name']}~{option['name']}~{value}/3x4/128.bin").is_file()
    assert any(encoder["options"] for encoder in catalog["encoders"])
    assert [each["id"] for each in catalog["diagnosis"]["measured"]] == list(MEASURED)
    for name in MEASURED:
        assert (exported / f"api/diagnosis/measured/{name}.json").read_bytes() == measured_data(name)
    for order in catalog["orders"]:
        assert (exported / f"api/order/{order}/3x4.json").is_file()


def test_nothing_comes_from_elsewhere():
    for path in STATIC.iterdir():
        if path.suffix in (".jpg", ".png"):
            continue
        text = path.read_text()
        for outside in ("//cdn", "https://", "@import url", "eval(", "innerHTML", "document.write"):
            assert outside not in text, (path.name, outside)
        assert text.count("http://") == text.count("http://www.w3.org/2000/svg")
    assert "<style" not in (STATIC / "index.html").read_text()
    assert "style=" not in (STATIC / "index.html").read_text()
