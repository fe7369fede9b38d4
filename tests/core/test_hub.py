"""Whether weights can be had: known within seconds, also where nobody answers."""

import socket
import threading

import pytest

from loope.core import hub

timm = pytest.importorskip("timm")
NAME = "vit_tiny_patch16_224"


@pytest.fixture
def silent():
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def talking():
    """The address of a server that says that there is nothing."""

    def serve():
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "PATIENCE", 0.3)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_server_that_says_nothing_is_not_waited_for(silent, monkeypatch):
    monkeypatch.setattr(hub, "_endpoint", lambda: silent)
    assert silent in hub.missing_weights(NAME)


def test_any_answer_is_one(talking, monkeypatch):
    monkeypatch.setattr(hub, "PATIENCE", 60)
    assert hub.answers(talking)


def test_addresses_of_files_are_not_opened(tmp_path):
    assert not hub.answers(tmp_path.as_uri())


def test_weights_in_the_cache_need_no_network(silent, monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_endpoint", lambda: silent)
    folder = tmp_path / f"models--{timm.get_pretrained_cfg(NAME).hf_hub_id.replace('/', '--')}"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc" / "model.safetensors").write_bytes(b"")
    assert hub.missing_weights(NAME) is None


@pytest.mark.parametrize("name", [f"{NAME}.nonsense", "vit_base_patch16_18x2_224"])
def test_models_without_weights(name):
    assert name.split(".")[0] in hub.missing_weights(name)
