"""Checkpoints that are named on the command line: offered from the start, in every view that can show them."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save, save_file
from starlette.testclient import TestClient

import loope
from loope.core.errors import LoopeError
from loope.explorer.app import create_app
from loope.explorer.files import describe_file, encoders_of
from tests.explorer.helpers import saved_model, unpack


def test_a_named_checkpoint_is_offered_to_every_view(tmp_path):
    path = tmp_path / "mine.safetensors"
    model = saved_model(path, "rope_mixed", refine="image")
    with TestClient(create_app(checkpoints=[path]), base_url="http://127.0.0.1") as client:
        (file,) = client.get("/api/catalog.json").json()["files"]
        assert file["name"] == "mine.safetensors"
        assert file["loope"] == {"grid": [3, 5]}
        assert [label for _, label, _ in file["choices"]] == ["rope_mixed", "loope.own.pos_embed, set aside"]
        sent = unpack(client.get(f"/api/similarity/{file['choices'][0][0]}/3x5/64.bin").content)
        expected = loope.encoder_similarity(model.loope.encoders[0][0]).float()
        assert torch.equal(sent["similarity"], expected)
        own = unpack(client.get(f"/api/similarity/{file['choices'][1][0]}/3x5/64.bin").content)
        table = loope.position_table(path, (3, 5), name="loope.own.pos_embed")
        assert torch.equal(own["similarity"], loope.cosine_similarity(table).float())
        model_view = client.post(f"/api/diagnosis.json?checkpoint={file['id']}")
        assert model_view.json()["encoders"] == ["rope_mixed"]  # needs the whole model


def test_only_encoders_and_tables_are_kept_in_memory(tmp_path):
    path = tmp_path / "vit.safetensors"
    table = torch.rand(1, 26, 16)
    save_file({"blocks.0.weight": torch.zeros(1000, 1000), "pos_embed": table}, path, metadata={"by": "hand"})
    kept = encoders_of(path)
    assert len(kept) < 4 * table.numel() + 1000
    assert json.loads(kept[8 : 8 + int.from_bytes(kept[:8], "little")])["__metadata__"] == {"by": "hand"}


@pytest.mark.parametrize("content", ["nothing", "text", "no positions"])
def test_a_file_without_positions_is_refused_at_the_start(tmp_path, content):
    path = tmp_path / "other.safetensors"
    if content == "text":
        path.write_text("something else")
    if content == "no positions":
        save_file({"head": torch.zeros(3)}, path)
    with pytest.raises(LoopeError, match=r"other\.safetensors"):
        create_app(checkpoints=[path])


@pytest.mark.parametrize("size", [[], [0, 0], [12, 20, 3], ["12", "20"], 12, None, [12.5, 20]])
@pytest.mark.parametrize("table", [torch.zeros(()), torch.zeros(0), torch.zeros(1, 0, 4), torch.rand(1, 10, 4)])
def test_a_file_may_tell_any_size(tmp_path, size, table):
    """The grid is a guess: a square, or none."""
    path = tmp_path / "model.safetensors"
    saved_model(path, "gilbert")
    with safe_open(path, framework="pt") as file:
        recipe = json.loads(file.metadata()["loope"])
    body = save({"loope.own.pos_embed": table}, {"loope": json.dumps({**recipe, "size": size})})
    told = describe_file(body)
    assert told["grid"] == ([3, 3] if table.numel() == 40 else None)  # then the page keeps its own
    assert told["choices"][0][1] == "gilbert"
