"""What the server sends of a whole model is what the library computes."""

import json

import pytest
import timm
import torch
from safetensors.torch import save
from starlette.testclient import TestClient

import loope
from loope.core.grid import Grid
from loope.explorer.app import create_app
from loope.explorer.diagnosis import CELLS, MOST_IMAGES, about, built_in, diagnosis_data
from loope.explorer.model import shipped
from loope.explorer.uploads import read_image, to_pixels
from loope.three_cell.questions import signed_area
from loope.three_cell.rendering import render
from tests.explorer.helpers import picture, saved_model
from tests.surgery.models import vit

PICTURES = [picture(50, 40, seed=seed) for seed in range(3)]


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(), base_url="http://127.0.0.1") as made:
        yield made


def joined(images):
    return b"".join(len(each).to_bytes(4, "little") + each for each in images)


def posted(client, images, query=""):
    return client.post(f"/api/diagnosis.json{query}", content=joined(images))


def assert_same(sent, model, pixels):
    shares, attention = loope.position_share(model, pixels), loope.attention_distance(model, pixels)
    for name in ("share", "position", "image", "local"):
        found = sent["share"] if name == "share" else sent["parts"][name]
        torch.testing.assert_close(torch.tensor(found).double(), getattr(shares, name), rtol=1e-5, atol=1e-5)
    for name in ("distance", "prefix"):
        found = torch.tensor(sent["attention"][name]).double()
        torch.testing.assert_close(found, getattr(attention, name), rtol=1e-5, atol=1e-6)
    assert sent["attention"]["uniform"] == pytest.approx(attention.uniform)
    assert (sent["layers"], tuple(sent["grid"]), sent["images"]) == (shares.layers, shares.grid, len(pixels))
    colours = (loope.position_artifacts(model, pixels).colours() * 255).flatten(1, 2)
    torch.testing.assert_close(torch.tensor(sent["colours"]).double(), colours, rtol=0, atol=1)


def test_the_shipped_model_on_built_in_images(client):
    sent = client.get("/api/diagnosis/built-in.json").json()
    assert_same(sent, shipped(), render(built_in(), CELLS, 4) * 2 - 1)
    assert sent["encoders"] == ["loope"]
    assert posted(client, []).json() == sent
    offered = client.get("/api/catalog.json").json()["diagnosis"]
    assert offered == about()
    assert torch.tensor(offered["cells"]).view(-1, 3, 2).equal(built_in())
    assert signed_area(built_in()).ne(0).all()


@pytest.mark.parametrize("scale", ["unit", "signed", "imagenet"])
def test_the_shipped_model_on_uploaded_images(client, scale):
    sent = posted(client, PICTURES, f"?pixels={scale}").json()
    pixels = torch.cat([to_pixels(read_image(each), Grid(20, 20), scale) for each in PICTURES])
    assert_same(sent, shipped(), pixels)
    assert sent["size"] == [20, 20]


def test_the_model_of_an_uploaded_file(client, tmp_path):
    model = saved_model(tmp_path / "model.safetensors", "rope_axial")
    name = client.post("/api/file.json", content=(tmp_path / "model.safetensors").read_bytes()).json()["id"]
    sent = posted(client, PICTURES, f"?checkpoint={name}").json()
    assert_same(sent, model, torch.cat([to_pixels(read_image(each), Grid(12, 20), "signed") for each in PICTURES]))
    assert (sent["model"], sent["encoders"], sent["grid"]) == ("VisionTransformer", ["rope_axial"], [3, 5])


def test_weights_alone_are_no_model(client):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1, embed_dim=16, num_heads=1)
    name = client.post("/api/file.json", content=save(model.state_dict())).json()["id"]
    response = posted(client, PICTURES, f"?checkpoint={name}")
    assert response.status_code == 400
    assert response.json()["error"].startswith("The file was not written by loope.save")


@pytest.mark.parametrize(
    ("body", "query", "words"),
    [
        (joined(PICTURES[:1]), "", "2 images"),
        (joined([PICTURES[0]] * (MOST_IMAGES + 1)), "", f"up to {MOST_IMAGES}"),
        (joined(PICTURES)[:-1], "", "not complete"),
        (bytes(8), "", "not complete"),
        (joined([b"no", b"picture"]), "", "cannot be read"),
        (joined(PICTURES), "?pixels=bright", "bright"),
        (joined(PICTURES), "?checkpoint=0123", "choose it again"),
    ],
)
def test_bad_input_is_named(client, body, query, words):
    response = client.post(f"/api/diagnosis.json{query}", content=body)
    assert response.status_code == 400
    assert words in response.json()["error"]


def test_attention_that_cannot_be_seen_leaves_the_rest():
    model = vit()
    attention = model.blocks[1].attn
    attention.__class__ = type("Hidden", (type(attention),), {"forward": lambda self, x, **more: self.proj(x)})
    sent = json.loads(diagnosis_data(model, b"", "signed"))
    assert "block 2" in sent["attention"]["error"]
    assert len(sent["share"]) == 3


def test_a_model_of_one_channel_is_refused():
    with pytest.raises(loope.LoopeError, match="1 channel"):
        diagnosis_data(vit(in_chans=1), b"", "signed")
