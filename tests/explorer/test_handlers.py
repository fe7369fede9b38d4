"""What the server sends is what the library computes."""

import json

import pytest
import torch
from safetensors.torch import save

import loope
from loope.explorer.model import ENCODERS, SHIPPED, example, shipped_encoder
from loope.pesi_metric.summary import summarize
from loope.three_cell.bits import BITS, COLOURS
from loope.three_cell.questions import answer, signed_area
from loope.three_cell.rendering import render
from tests.explorer.helpers import error, saved_model, similarity_of, unpack
from tests.weights import weights


def similarity(client, choice, grid="4x6", dim=64):
    response = client.get(f"/api/similarity/{choice}/{grid}/{dim}.bin")
    assert response.status_code == 200, response.text
    return unpack(response.content)


def test_the_catalog_lists_everything(client):
    reply = client.get("/api/catalog.json").json()
    assert [row["name"] for row in reply["encoders"]] == loope.list_encoders()
    assert reply["orders"] == loope.list_orders()
    options = {row["name"]: {o["name"]: o for o in row["options"]} for row in reply["encoders"]}
    assert options["sinusoid"]["order"] == {"name": "order", "default": "raster", "choices": loope.list_orders()}
    assert list(options["as2drope"]) == ["base", "temperature"]
    assert reply["words"]["distance"]["10"] == "RG is longer than RB"
    assert reply["model"]["grid"] == list(shipped_encoder().grid)
    assert reply["model"]["patch"] == shipped_encoder().patch_size
    assert [each["id"] for each in reply["model"]["encoders"]] == list(ENCODERS)


@pytest.mark.parametrize("name", loope.list_encoders())
def test_every_encoder_is_sent_as_the_library_has_it(client, name):
    sent = similarity(client, name, "4x6", 128)
    expected = similarity_of(name, (4, 6), 128, 2)
    assert torch.equal(sent["similarity"], expected.float())
    biases = {row["name"] for row in client.get("/api/catalog.json").json()["encoders"] if row["kind"] == "bias"}
    unit = "exp(bias)" if name == "lookhere" else "bias"  # as the docstrings of their `similarity` say
    assert sent["unit"] == (unit if name in biases else "cosine")
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
        ("similarity/gilbert/4x4~/64.bin", "got '4x4~'"),
        ("similarity/gilbert/4x4~5x5~6x6/64.bin", "got '4x4~5x5~6x6'"),
        ("similarity/gilbert/4x4~33x32/64.bin", "up to 1024 cells, got 33x32"),
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
    assert reply["grid"] == [3, 5]  # images of 12x20 pixels
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


def test_three_cell_opens_with_cells_that_the_model_answers_right(client, monkeypatch):
    cells = client.get("/api/three-cell/example.json").json()["cells"]
    told = client.get(f"/api/three-cell/red/{'-'.join(map(str, cells))}.json").json()
    assert [int(logit > 0) for logit in told["logits"]] == told["label"]
    always = torch.tensor([0, 1, 1, 0, 1, 0])  # what another model says of every image
    monkeypatch.setattr("loope.explorer.model.shipped", lambda: lambda images: (always - 0.5).repeat(len(images), 1))
    other = torch.tensor(json.loads(example())["cells"]).view(1, 3, 2)
    assert torch.equal(answer(other, shipped_encoder().grid)[0], always)


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
