"""Encodings on another grid than they were made for: what the server sends is what the library's `resize` gives."""

import pytest
import torch
from safetensors.torch import save

import loope
from loope.core.grid import Grid
from loope.explorer.compare import Trained
from loope.explorer.uploads import read_weights
from loope.surgery.adapters.base import adapter_for
from tests.explorer.helpers import SIZE, saved_model, unpack


def ask(client, choice, size, dim=64):
    response = client.get(f"/api/similarity/{choice}/{size}/{dim}.bin")
    assert response.status_code == 200, response.text
    return unpack(response.content)


@pytest.mark.parametrize("name", loope.list_encoders())
def test_an_encoder_is_resized_by_itself(client, name):
    sent = ask(client, name, "3x4~5x6")
    torch.manual_seed(0)
    encoder = loope.create_encoder(name, 64, (3, 4), patch_size=16, heads=1, depth=12).resize((5, 6))
    assert sent["grid"] == [5, 6]
    assert torch.equal(sent["similarity"], loope.encoder_similarity(encoder).float())


def test_a_learned_table_is_resampled_not_made_anew(client):
    assert not torch.equal(ask(client, "learned", "3x4~5x6")["similarity"], ask(client, "learned", "5x6")["similarity"])
    assert ask(client, "gilbert", "14x14", 768)["published"] is not None
    assert ask(client, "gilbert", "7x7~14x14", 768)["published"] is None


def test_a_files_table_is_resampled(client):
    table = torch.rand(1, 13, 8, generator=torch.Generator().manual_seed(0))
    name = client.post("/api/file.json", content=save({"pos_embed": table})).json()["id"]
    sent = ask(client, f"file~{name}", "3x4~6x8")
    expected = torch.nn.functional.interpolate(
        table[0, 1:].T.reshape(1, 8, 3, 4), size=(6, 8), mode="bicubic", antialias=True
    )
    expected = loope.cosine_similarity(expected[0].permute(1, 2, 0)).float()
    torch.testing.assert_close(sent["similarity"], expected)


@pytest.mark.parametrize("name", loope.list_encoders())
def test_every_encoder_of_a_checkpoint_is_shown_as_trained(tmp_path, name):
    """On the grid of its model, and resized as `loope.resize` does it."""
    path = tmp_path / "model.safetensors"
    model = saved_model(path, name)
    with torch.no_grad():
        for parameter in model.loope.parameters():
            parameter.add_(0.3 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)))
    loope.save(model, path, model_args=SIZE)
    file = Trained(read_weights(path.read_bytes()))
    encoder = model.loope.encoders[0][0]
    here = adapter_for(model).branches()[0].grid
    sent = unpack(file.data(0, here, here))
    assert torch.equal(sent["similarity"], loope.encoder_similarity(encoder).float())
    larger = Grid(6, 10)
    unpack(file.data(0, here, Grid(4, 7)))  # what was resized before does not matter
    resized = unpack(file.data(0, here, larger))
    loope.resize(model, (24, 40))
    torch.testing.assert_close(
        resized["similarity"], loope.encoder_similarity(model.loope.encoders[0][0]).float(), rtol=0, atol=1e-6
    )
