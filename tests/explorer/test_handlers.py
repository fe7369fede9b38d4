"""What the server sends is what the library computes."""

import json

import pytest
import timm
import torch
from safetensors.torch import save, save_file
from starlette.testclient import TestClient

import loope
from loope.core.grid import Grid
from loope.explorer.app import create_app
from loope.explorer.model import SHIPPED, shipped_encoder
from loope.explorer.uploads import read_image, to_pixels
from loope.pesi_metric.summary import summarize
from loope.three_cell.bits import BITS, COLOURS
from loope.three_cell.questions import answer, signed_area
from loope.three_cell.rendering import render
from tests.explorer.helpers import SIZE, picture, saved_model, similarity_of, slow_swaps, unpack
from tests.weights import weights


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(), base_url="http://127.0.0.1") as made:
        yield made


def similarity(client, choice, grid="4x6", dim=64):
    response = client.get(f"/api/similarity/{choice}/{grid}/{dim}.bin")
    assert response.status_code == 200, response.text
    return unpack(response.content)


def error(response, status=400):
    assert response.status_code == status
    return response.json()["error"]


def test_the_catalog_lists_everything(client):
    reply = client.get("/api/catalog.json").json()
    assert [row["name"] for row in reply["encoders"]] == loope.list_encoders()
    assert reply["orders"] == loope.list_orders()
    options = {row["name"]: {o["name"]: o for o in row["options"]} for row in reply["encoders"]}
    assert options["sinusoid"]["order"] == {"name": "order", "default": "raster", "choices": loope.list_orders()}
    assert list(options["as2drope"]) == ["base", "temperature"]
    assert reply["words"]["distance"]["10"] == "RG is longer than RB"
    assert reply["model"] == {"grid": list(shipped_encoder().grid), "patch": shipped_encoder().patch_size}


@pytest.mark.parametrize("name", loope.list_encoders())
def test_every_encoder_is_sent_as_the_library_has_it(client, name):
    sent = similarity(client, name, "4x6", 128)
    expected = similarity_of(name, (4, 6), 128, 2)
    assert torch.equal(sent["similarity"], expected.float())
    biases = {row["name"] for row in client.get("/api/catalog.json").json()["encoders"] if row["kind"] == "bias"}
    assert sent["unit"] == ("bias" if name in biases else "cosine")
    reply = summarize(expected, (4, 6))._asdict()
    for key, value in reply.items():
        assert sent["scores"][key] == (value if abs(value) != float("inf") else None), key
    assert torch.equal(sent["m_u"], loope.undirected_monotonicity(expected, (4, 6)).float())
    assert torch.equal(sent["m_d"], loope.directed_monotonicity(expected, (4, 6)).float())
    assert torch.equal(sent["a_su"], loope.undirected_asymmetry(expected, (4, 6)).float())
    assert sent["a_su_bounded"].shape == (4, 6)


def test_options_change_what_is_sent(client):
    hilbert = similarity(client, "sinusoid~order~hilbert~phase~checkerboard")["similarity"]
    expected = similarity_of("sinusoid", (4, 6), 64, 1, order="hilbert", phase="checkerboard")
    assert torch.equal(hilbert, expected.float())
    assert not torch.equal(hilbert, similarity(client, "sinusoid")["similarity"])
    scaled = similarity(client, "as2drope~base~7~temperature~50.5")["similarity"]
    assert torch.equal(scaled, similarity_of("as2drope", (4, 6), 64, 1, base=7, temperature=50.5).float())


def test_the_papers_rows_come_along_for_its_settings_only(client):
    paper = {"called": "Static", "m_u": 1.967, "m_d": 1.2897, "a_su": 0.0945}
    assert similarity(client, "gilbert", "14x14", 768)["published"] == paper
    assert similarity(client, "gilbert~phase~checkerboard", "14x14", 768)["published"] is None
    assert similarity(client, "gilbert", "14x14", 64)["published"] is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("similarity/gilbart/4x4/64.bin", "Unknown encoder 'gilbart'; use one of: gilbert"),
        ("similarity/gilbert~order~hilbert/4x4/64.bin", "Unknown option of 'gilbert' in the explorer: 'order'"),
        ("similarity/rope_axial~temperature~warm/4x4/64.bin", "must be a number, got 'warm'"),
        ("similarity/rope_axial~temperature/4x4/64.bin", "pairs of a name and a value"),
        ("similarity/sincos2d/4x4/66.bin", "divisible by 4"),
        ("similarity/gilbert/33x32/64.bin", "up to 1024 cells, got 33x32, with 1056"),
        ("similarity/gilbert/4x4/4096.bin", "widths from 1 to 2048, got 4096"),
        ("similarity/gilbert/0x4/64.bin", "at least 1x1"),
        ("similarity/gilbert/1x1/64.bin", "no distances to compare"),
        ("similarity/file~0123/4x4/64.bin", "choose it again"),
        ("order/gilbart/4x4.json", "Unknown order 'gilbart'"),
        ("order/gilbert/64x64.json", "up to 1024 cells"),
        (f"similarity/gilbert/{'9' * 5000}x4/64.bin", "whole number"),
        (f"similarity/gilbert/4x4/{'9' * 5000}.bin", "whole number"),
        (f"similarity/timm~vit_tiny_patch16_224/4x{'9' * 5000}/64.bin", "whole number"),
        ("similarity/gilbert/4xfour/64.bin", "whole number of up to six digits, got 'four'"),
        (f"similarity/{'a' * 60_000}/4x4/64.bin", "60000"),
        (f"similarity/timm~{'a' * 60_000}/4x4/64.bin", "up to 100 letters"),
        (f"order/gilbert/4x{'9' * 5000}.json", "whole number"),
        (f"order/{'a' * 60_000}/4x4.json", "Unknown order"),
        ("three-cell/pink/0-0-1-1-2-3.json", "Unknown colour 'pink'"),
        ("three-cell/red/0-0-1-1-2-x.json", "six numbers, row and column of each, got '0-0-1-1-2-x'"),
        ("three-cell/red/0-0-1-1.json", "six numbers, row and column of each, got '0-0-1-1'"),
        ("three-cell/red/0-0-1-1-2-99.json", "must lie in a grid"),
        (f"three-cell/red/0-0-1-1-2-{10**30}.json", "six numbers"),
    ],
)
def test_errors_have_messages(client, path, words):
    assert words in error(client.get(f"/api/{path}"))


def test_orders_with_their_locality(client):
    sent = client.get("/api/order/hilbert/5x3.json").json()
    order = loope.create_order("hilbert", 5, 3)
    assert sent == {"index": order.index.flatten().tolist(), "locality": order.locality()._asdict()}
    assert client.get("/api/order/raster/1x2.json").json()["locality"]["rank_correlation"] is None


def test_a_files_table(client, tmp_path):
    table = torch.rand(1, 13, 8, generator=torch.Generator().manual_seed(0)) - 0.3
    reply = client.post("/api/file.json", content=save({"pos_embed": table, "head.weight": torch.rand(2, 8)})).json()
    assert reply["grid"] == [3, 3]  # a guess; the page may ask for another grid
    assert reply["choices"] == [[f"file~{reply['id']}", "", None]]
    assert "not written by loope.save" in reply["loope"]["error"]
    sent = similarity(client, f"file~{reply['id']}", "3x4", 64)
    assert torch.equal(sent["similarity"], loope.cosine_similarity(table[0, 1:].view(3, 4, 8)).float())
    assert sent["dim"] == 8
    assert "fits 2x2" in error(client.get(f"/api/similarity/file~{reply['id']}/2x2/64.bin"))
    empty = client.post("/api/file.json", content=save({"pos_embed": torch.zeros(1, 9, 0)})).json()
    assert "must not be empty" in error(client.get(f"/api/similarity/file~{empty['id']}/3x3/64.bin"))
    without = client.post("/api/file.json", content=save({"head.weight": table})).json()
    assert "no table of positions" in without["error"]


def test_a_pretrained_models_table(client):
    path = weights("vit_tiny_patch16_224.safetensors")
    reply = client.post("/api/file.json", content=path.read_bytes()).json()
    assert reply["grid"] == [14, 14]
    assert round(similarity(client, f"file~{reply['id']}", "14x14")["scores"]["m_u"], 5) == 1.94112


def test_what_acts_in_a_checkpoint_is_compared(client, tmp_path):
    """Not the table that attaching set aside, which is offered by its name."""
    path = tmp_path / "model.safetensors"
    model = saved_model(path, "irpe")
    with torch.no_grad():
        for parameter in model.loope.parameters():
            parameter.add_(torch.rand_like(parameter))  # trained
    loope.save(model, path, model_args={"patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2})
    reply = client.post("/api/file.json", content=path.read_bytes()).json()
    (acts, acting_name, _), (aside, aside_name, table) = reply["choices"]
    assert acting_name == "irpe"
    assert table == "loope.own.pos_embed"
    assert table in aside_name
    sent = similarity(client, acts, "3x5")
    assert torch.equal(sent["similarity"], loope.encoder_similarity(model.loope.encoders[0][0], (3, 5)).float())
    assert sent["unit"] == "bias"
    own = loope.position_table(path, (3, 5), name=table)
    assert torch.equal(similarity(client, aside, "3x5")["similarity"], loope.cosine_similarity(own).float())
    for wrong in (f"{aside[:-1]}7", f"{aside}~1", f"file~{reply['id']}~other~0"):
        assert error(client.get(f"/api/similarity/{wrong}/3x5/64.bin"))


def test_the_shipped_model(client):
    assert SHIPPED.stat().st_size < 500_000
    encoder = shipped_encoder()
    model, grid = loope.load(SHIPPED).float(), encoder.grid
    cells = [4, 0, 1, 2, 3, 4]
    sent = client.get("/api/three-cell/green/4-0-1-2-3-4.json").json()
    asked = torch.tensor(cells).view(1, 3, 2)
    with torch.no_grad():
        logits = model(render(asked, grid, encoder.patch_size) * 2 - 1)
    assert sent["label"] == answer(asked, grid)[0].tolist()
    torch.testing.assert_close(torch.tensor([sent["logits"]]), logits)
    moved = asked.clone()
    for place, count in enumerate(sent["wrong"]):  # one at a time, where the server asks once
        moved[0, 1] = torch.tensor([place // grid.width, place % grid.width])
        if signed_area(moved).item() == 0:
            assert count is None
            continue
        with torch.no_grad():
            said = model(render(moved, grid, encoder.patch_size) * 2 - 1)
        if said.abs().min() > 1e-4:  # not on the edge
            assert count == ((said > 0).long() != answer(moved, grid)).sum().item()
    assert sum(count is not None for count in sent["wrong"]) > 0.6 * grid.size
    assert len(BITS) == len(sent["logits"])
    assert COLOURS[1] == "green"


def test_the_shipped_model_has_learned(client):
    """Better than anything without positions can be: on samples of a split that it was not trained on."""
    encoder, score = shipped_encoder(), loope.ThreeCellScore()
    data = loope.ThreeCell(size=10_000, grid=encoder.grid, cell=encoder.patch_size, split="test")
    model = loope.load(SHIPPED).float()
    with torch.no_grad():
        for cells, labels in zip(data.cells.split(250), data.labels.split(250), strict=True):
            score.update(model(data.render(cells) * 2 - 1), labels)
    scores = score.compute()
    assert scores["average"] > 0.8
    assert data.majority_rates()["average"] < 0.6


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
