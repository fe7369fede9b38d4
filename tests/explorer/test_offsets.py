"""What LOOPE does to an image, over HTTP: offsets are the library's, whatever the encoder and the file."""

import json

import pytest
import timm
import torch
from safetensors.torch import save_file

import loope
from docs.ship_encoder import encoder_only
from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.explorer.model import ENCODERS, ShippedEncoder, shipped_encoder
from loope.explorer.model import about as model_about
from loope.explorer.uploads import read_image, to_pixels
from tests.explorer.helpers import SIZE, error, picture, saved_model, slow_swaps


@pytest.mark.parametrize("query", ["", "?height=5&width=9", "?pixels=unit"])
def test_offsets_of_an_image(client, query):
    body = picture()
    sent = client.post(f"/api/offsets.json{query}", content=body).json()
    encoder = shipped_encoder()
    grid = Grid(5, 9) if "height" in query else encoder.grid
    size = Grid(grid.height * encoder.patch_size, grid.width * encoder.patch_size)
    pixels = to_pixels(read_image(body), size, "unit" if "unit" in query else "signed")
    with torch.no_grad():
        expected, refined = encoder.offsets(pixels, grid)[0], encoder.refined_index(pixels, grid)[0].tolist()
    assert sent["grid"] == list(grid)
    assert sent["index"] == loope.create_order("gilbert", *grid).index.flatten().tolist()
    torch.testing.assert_close(torch.tensor(sent["offsets"]), expected)
    assert sent["swapped"] == slow_swaps(sent["index"], refined)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rope_mixed", {"refine": "image"}),
        ("sincos2d", {"refine": {"mixer": "linear", "inputs": "rgb", "reach": 2}}),
        ("fourier", {"refine": {"inputs": "xy"}, "features": 6}),
        ("sinusoid", {"refine": "image", "order": "hilbert", "frequencies": "geometric"}),
        ("loope", {"policy": "table"}),
        ("loope", {"phase": "checkerboard"}),
    ],
)
def test_offsets_of_any_encoder_that_an_image_refines(client, tmp_path, name, options):
    path, body = tmp_path / "model.safetensors", picture()
    model = saved_model(path, name, **options)
    encoder = model.loope.encoders[0][0]
    torch.nn.init.normal_(encoder.generator.mixer.weight)
    loope.save(model, path, model_args=SIZE)
    told = client.post("/api/file.json", content=path.read_bytes()).json()
    assert told["loope"] == {"grid": [3, 5]}
    sent = client.post(f"/api/offsets.json?checkpoint={told['id']}", content=body).json()
    with torch.no_grad():
        expected = encoder.offsets(to_pixels(read_image(body), Grid(12, 20), "signed"))[0]
    torch.testing.assert_close(torch.tensor(sent["offsets"]), expected)
    assert expected.any()
    assert (sent["index"] is None) == (expected.dim() == 2)
    if expected.dim() == 2:
        assert sent["swapped"] == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("height=x&width=3", "height must be a whole number of up to six digits, got 'x'"),
        (f"height=3&width={'9' * 5000}", "whole number"),
        ("height=3", "at least 1x1, got 3x0"),
        ("height=64&width=64", "up to 1024 cells"),
        ("pixels=many", "Unknown scale of pixels 'many'"),
        ("checkpoint=..%2Fmodel", "choose it again"),
    ],
)
def test_errors_with_offsets_have_messages(client, query, words):
    assert words in error(client.post(f"/api/offsets.json?{query}", content=picture()))


def test_pixels_are_what_torchvision_would_give():
    from torchvision.transforms import v2

    body = picture(31, 17, "BMP")
    image = read_image(body)
    plain = v2.Compose([v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])(image)
    torch.testing.assert_close(to_pixels(image, Grid(17, 31), "unit")[0], plain)
    signed = v2.Normalize([0.5] * 3, [0.5] * 3)(plain)
    torch.testing.assert_close(to_pixels(image, Grid(17, 31), "signed")[0], signed)
    with pytest.raises(AssertionError):  # height and width are not confused
        torch.testing.assert_close(to_pixels(image, Grid(31, 17), "unit")[0].mT, plain)


@pytest.mark.parametrize("options", [{}, {"mixer": "conv", "activation": "gelu", "order": "hilbert"}, {"inputs": "xy"}])
def test_loope_out_of_a_saved_model(client, tmp_path, options):
    path = tmp_path / "model.safetensors"
    model = saved_model(path, **options)
    reply = client.post("/api/file.json", content=path.read_bytes()).json()
    assert reply["loope"] == {"grid": [3, 5]}
    body = picture()
    sent = client.post(f"/api/offsets.json?checkpoint={reply['id']}", content=body).json()
    with torch.no_grad():
        expected = model.loope.encoders[0][0].offsets(to_pixels(read_image(body), Grid(12, 20), "signed"))[0]
    torch.testing.assert_close(torch.tensor(sent["offsets"]), expected)


def test_a_saved_models_recipe_is_not_followed(client, tmp_path, monkeypatch):
    """A small file may ask for a huge model: only the encoder is built, out of tensors that are in the file."""
    path = tmp_path / "model.safetensors"
    saved_model(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        recipe = json.loads(file.metadata()["loope"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    recipe["model"] = {"library": "timm", "name": "vit_giant_patch14_224", "args": {"depth": 10**9}}
    save_file(tensors, path, metadata={"loope": json.dumps(recipe)})
    with monkeypatch.context() as without:
        without.setattr(timm, "create_model", None)
        assert sent_loope(client, path) == {"grid": [3, 5]}
    for change, words in (({"size": [10**6] * 2}, "up to 1024 cells"), ({"attach": {}}, "cannot be built: KeyError")):
        save_file(tensors, path, metadata={"loope": json.dumps({**recipe, **change})})
        assert words in sent_loope(client, path)["error"]
    saved_model(path, "gilbert")
    assert "gilbert attached, but no LOOPE" in sent_loope(client, path)["error"]


def sent_loope(client, path):
    return client.post("/api/file.json", content=path.read_bytes()).json()["loope"]


@pytest.mark.parametrize(("name", "options"), [("loope", {}), ("sincos2d", {"refine": "image"})])
def test_a_shipped_encoder_is_read_without_its_model(client, tmp_path, monkeypatch, name, options):
    """Fitted to the model's own table, as `loope run swap` does it, and written without the model."""
    path, body = tmp_path / "model.safetensors", picture()
    model = saved_model(path, name, init="own", **options)
    encoder = model.loope.encoders[0][0].encoder  # within the projection
    torch.nn.init.normal_(encoder.generator.mixer.weight, std=30.0)
    loope.save(model, path, model_args=SIZE)
    small = tmp_path / "small.safetensors"
    small.write_bytes(encoder_only(path))
    assert small.stat().st_size < path.stat().st_size
    monkeypatch.setitem(ENCODERS, f"small-{name}", ShippedEncoder(small, "small", "unit"))
    offered = model_about()["encoders"]
    assert {"id": f"small-{name}", "text": "small", "pixels": "unit"} in offered
    sent = client.post(f"/api/offsets.json?checkpoint=small-{name}&pixels=unit", content=body).json()
    with torch.no_grad():
        expected = encoder.offsets(to_pixels(read_image(body), Grid(12, 20), "unit"))[0]
    torch.testing.assert_close(torch.tensor(sent["offsets"]), expected, rtol=0, atol=0.02)  # half precision
    assert expected.abs().max() > 0.1


def test_an_encoder_that_no_image_refines_is_not_shipped(tmp_path):
    saved_model(tmp_path / "model.safetensors", "gilbert")
    with pytest.raises(LoopeError, match="gilbert"):
        encoder_only(tmp_path / "model.safetensors")


def test_every_shipped_encoder_moves_patches_by_the_image():
    for name in ENCODERS:
        encoder = shipped_encoder(name)
        size = Grid(encoder.grid.height * encoder.patch_size, encoder.grid.width * encoder.patch_size)
        with torch.no_grad():
            moved = [encoder.offsets(to_pixels(read_image(picture(seed=seed)), size, "signed")) for seed in (0, 1)]
        assert moved[0].abs().max() > 1e-3, name
        assert not torch.equal(*moved), name
        assert ENCODERS[name].path.stat().st_size < 1_000_000
