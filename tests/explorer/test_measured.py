"""Results that ship with the page: what the view needs, and what the script that writes them measures."""

import json

import pytest
import torch

import loope
from docs.ship_diagnosis import diagnosis, model_of
from loope.explorer.diagnosis import MEASURED, diagnosis_data, measured_data
from tests.explorer.helpers import error, picture, saved_model
from tests.explorer.test_diagnosis import joined
from tests.surgery.models import vit
from tests.weights import data, weights


def numbers(sent):
    """Return all numbers, in order."""
    if isinstance(sent, dict | list):
        return [each for part in (sent.values() if isinstance(sent, dict) else sent) for each in numbers(part)]
    return [] if isinstance(sent, str) else [sent]


@pytest.mark.parametrize("name", MEASURED)
def test_what_ships_is_what_the_page_needs(client, name):
    response = client.get(f"/api/diagnosis/measured/{name}.json")
    assert response.content == measured_data(name)
    assert len(response.content) < 60_000
    sent, live = response.json(), client.get("/api/diagnosis/built-in.json").json()
    assert sent.keys() == live.keys()
    assert (sent["grid"], sent["size"], sent["images"]) == ([14, 14], [224, 224], 16)
    assert sent["encoders"] == (["loope"] if "loope" in name else [])
    assert sent["layers"] == ["input", *(f"block {number}" for number in range(1, 13))]
    colours = torch.tensor(sent["colours"])
    assert (colours.shape, colours.dtype) == ((13, 14 * 14, 3), torch.int64)
    assert 0 <= colours.min() <= colours.max() <= 255
    parts = torch.tensor([sent["parts"][part] for part in live["parts"]])
    torch.testing.assert_close(parts[0] / parts.sum(0), torch.tensor(sent["share"]), rtol=1e-2, atol=0)
    for heads in (sent["attention"]["distance"], sent["attention"]["prefix"]):
        assert torch.tensor(heads).shape == (12, 3)


def test_the_page_is_told_of_them(client):
    offered = client.get("/api/catalog.json").json()["diagnosis"]["measured"]
    assert {each["id"]: each["text"] for each in offered} == MEASURED
    assert offered[0]["id"] == "vit-tiny"


def test_unknown_names_are_refused(client):
    assert "vit-tiny" in error(client.get("/api/diagnosis/measured/vit-huge.json"))
    assert "vit-tiny" in error(client.get("/api/diagnosis/measured/..%5Ccatalog.json"))
    assert client.get("/api/diagnosis/measured/..%2Fcatalog.json").status_code == 404


@pytest.mark.parametrize(("name", "encoder"), [("vit-tiny", None), ("vit-tiny-loope", "loope")])
def test_the_pretrained_model_measured_again(name, encoder):
    weights("vit_tiny_patch16_224.safetensors")
    fresh = json.loads(diagnosis(model_of("vit_tiny_patch16_224", encoder), data("imagenet-samples")))
    sent = json.loads(measured_data(name))
    assert sent["encoders"] == fresh["encoders"] == ([] if encoder is None else [encoder])
    assert numbers([sent.pop("colours")]) == pytest.approx(numbers([fresh.pop("colours")]), abs=3)
    assert numbers(sent) == pytest.approx(numbers(fresh), rel=1e-3)


def test_every_nth_image_is_measured(tmp_path):
    model = saved_model(tmp_path / "model.safetensors", "rope_axial")
    (tmp_path / "images").mkdir()
    for number in range(35):
        (tmp_path / f"images/{number:02}.png").write_bytes(picture(8, 8, seed=number))
    sent = json.loads(diagnosis(model_of(str(tmp_path / "model.safetensors")), tmp_path / "images"))
    wanted = json.loads(diagnosis_data(model, joined([picture(8, 8, seed=2 * each) for each in range(16)]), "signed"))
    assert numbers(sent) == pytest.approx(numbers(wanted), rel=1e-4)


def test_too_few_images_are_refused(tmp_path):
    (tmp_path / "one.png").write_bytes(picture())
    with pytest.raises(loope.LoopeError, match="takes 16 images"):
        diagnosis(vit(), tmp_path)
