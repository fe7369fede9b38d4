"""Models by name: loaded by another process, which keeps nobody waiting."""

import copy
import json
import re
import sys
import time

import anyio
import pytest
import timm
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from starlette.testclient import TestClient

import loope
from loope.core.grid import Grid
from loope.explorer import models, queue
from loope.explorer.app import STATIC, create_app
from loope.explorer.queue import SECONDS, SECONDS_ELSEWHERE  # as they are without the fixture `patience`
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


def test_the_page_waits_longer_than_the_server():
    page = int(re.search(r"GET: (\d+)", (STATIC / "data.js").read_text())[1])
    assert max(SECONDS, SECONDS_ELSEWHERE) < page


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


def trained(client, tmp_path, name="mine"):
    """Upload a checkpoint; return what asks for its encoder on a grid, and the encoder."""
    path = tmp_path / f"{name}.safetensors"
    encoder = saved_model(path, name).loope.encoders[0][0]
    number = client.post("/api/file.json", content=path.read_bytes()).json()["id"]
    return lambda size: client.get(f"/api/similarity/file~{number}~acts~0/{size}/64.bin"), encoder


def test_encoders_of_a_file_are_built_once_for_all_sizes(client, other_process, tmp_path):
    ask, encoder = trained(client, tmp_path, "learned")
    other, _ = trained(client, tmp_path, "rope_axial")
    assert ask("3x5").status_code == 200
    other_process("raise SystemExit(1)")  # a second process would fail
    wrong = ask("3x5~33x32")
    assert wrong.status_code == 400
    assert "1024 cells" in wrong.json()["error"]
    for size in ((4, 7), (6, 10)):
        sent = unpack(ask(f"3x5~{size[0]}x{size[1]}").content)
        expected = loope.encoder_similarity(copy.deepcopy(encoder).resize(size)).float()
        torch.testing.assert_close(sent["similarity"], expected, rtol=0, atol=1e-6)
    assert other("3x5").status_code == 400  # of another file


def test_a_process_that_has_ended_is_replaced(client, monkeypatch, tmp_path):
    ask, _ = trained(client, tmp_path, "rope_axial")
    monkeypatch.setattr(models, "SECONDS_KEPT", 0)
    assert ask("3x5").status_code == 200
    time.sleep(0.5)
    assert ask("3x5~4x7").status_code == 200


def test_a_process_that_builds_no_encoders_in_time_is_ended(client, other_process, monkeypatch, tmp_path):
    ask, _ = trained(client, tmp_path, "rope_axial")
    other_process("import time; time.sleep(60)")
    monkeypatch.setitem(models.SECONDS, "acts", 0.05)
    began = time.monotonic()
    assert ask("3x5").status_code == 400
    assert time.monotonic() - began < 30
    monkeypatch.setitem(models.SECONDS, "acts", 300)
    other_process("raise SystemExit(1)")
    assert ask("3x5").status_code == 400


def test_few_processes_are_kept(tmp_path):
    """The file that was used longest ago loses its own; at the end all do."""
    files = {}
    for name in ("learned", "rope_axial", "alibi2d"):
        saved_model(tmp_path / f"{name}.safetensors", name)
        files[name] = (tmp_path / f"{name}.safetensors").read_bytes()

    async def use():
        made, grid = models.Models(), Grid(3, 5)
        for name, file in files.items():
            await made.acting(name, file, 0, grid, grid)
        kept = {name: builder._process for name, builder in made._built.items()}
        assert list(kept) == ["rope_axial", "alibi2d"]
        assert all(process.returncode is None for process in kept.values())
        await made.close()
        assert all(process.returncode is not None for process in kept.values())

    anyio.run(use)
