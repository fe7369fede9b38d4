"""Models by name: loaded by another process, which keeps nobody waiting."""

import json
import sys

import pytest
import timm
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from starlette.testclient import TestClient

import loope
from loope.explorer import models, queue
from loope.explorer.app import create_app
from tests.explorer.helpers import saved_model, unpack


@pytest.fixture
def client():
    with TestClient(create_app(), base_url="http://127.0.0.1") as made:
        yield made


@pytest.fixture
def other_process(monkeypatch):
    """Sets what is run instead of the process that loads a model."""
    return lambda code: monkeypatch.setattr(models, "COMMAND", [sys.executable, "-c", code])


def ask(client, name, grid="4x6"):
    return client.get(f"/api/similarity/timm~{name}/{grid}/64.bin")


def test_a_timm_models_table(client, other_process):
    without_network = (
        "import torch, timm; from functools import partial; torch.manual_seed(5); "
        "make = partial(timm.create_model, img_size=(64, 96), depth=1); "
        "timm.create_model = lambda name, pretrained: make(name); "
        "import loope.pesi_metric.position_table as tables; tables.missing_weights = lambda model: None; "
    )
    other_process(models.START.replace("from loope", f"{without_network}from loope"))
    sent = unpack(ask(client, "vit_tiny_patch16_224").content)
    torch.manual_seed(5)
    made = timm.create_model("vit_tiny_patch16_224", img_size=(64, 96), depth=1)
    table = made.pos_embed.detach()[0, 1:].view(4, 6, -1)
    assert torch.equal(sent["similarity"], loope.cosine_similarity(table).float())


def test_the_reason_is_passed_on(client, other_process):
    for code, words in ((f"print('no such'); exit({models.FAILED})", "no such"), ("exit(1)", "'vit_dies'")):
        other_process(f"import sys; {code}")
        response = ask(client, "vit_dies")
        assert response.status_code == 400
        assert words in response.json()["error"]


def test_only_the_machines_own_user_may_ask():
    with TestClient(create_app(local=False)) as public:
        assert "choose a file" in ask(public, "vit_tiny_patch16_224").json()["error"]


def test_models_that_cannot_be_loaded_give_a_message_and_block_nobody(client, other_process, monkeypatch):
    other_process("import time; time.sleep(60)")
    monkeypatch.setattr(queue, "SECONDS_ELSEWHERE", 0.05)
    for number in range(models.MOST_PROCESSES + queue.WORKERS):
        response = ask(client, f"vit_{number}")
        assert response.status_code == 504
        assert f"vit_{number}" in response.json()["error"]
    assert client.get("/api/similarity/gilbert/4x6/64.bin").status_code == 200


def test_a_process_that_hangs_is_ended(client, other_process, monkeypatch):
    other_process("import time; time.sleep(60)")
    monkeypatch.setitem(models.SECONDS, "timm", 0.05)
    response = ask(client, "vit_hangs")
    assert response.status_code == 400
    assert "vit_hangs" in response.json()["error"]


def test_a_model_that_arrives_late_is_there_when_asked_again(client, other_process, monkeypatch):
    other_process("import sys, time; time.sleep(0.5); sys.stdout.write('late')")
    monkeypatch.setattr(queue, "SECONDS_ELSEWHERE", 0.05)
    assert ask(client, "vit_late").status_code == 504
    monkeypatch.setattr(queue, "SECONDS_ELSEWHERE", 60)
    other_process("raise SystemExit(1)")  # a second process would fail
    assert ask(client, "vit_late").content == b"late"


def test_a_file_that_asks_for_gigabytes_is_refused(client, tmp_path):
    path = tmp_path / "model.safetensors"
    saved_model(path, "learned")
    with safe_open(path, framework="pt") as file:
        recipe = json.loads(file.metadata()["loope"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    recipe["size"] = [200_000, 200_000]
    save_file(tensors, path, metadata={"loope": json.dumps(recipe)})
    reply = client.post("/api/file.json", content=path.read_bytes()).json()
    assert "choices" not in reply
    assert "200,000" in reply["error"]
    assert client.get(f"/api/similarity/file~{reply['id']}~acts~0/3x5/64.bin").status_code == 400
