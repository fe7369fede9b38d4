"""A hub that does not answer is asked once; then the cache must do."""

import socket
import threading
from contextlib import contextmanager

import pytest

from loope.core.errors import LoopeError
from loope.core.hub import hub_or_cache
from loope.metrics.tables import model_table

constants = pytest.importorskip("huggingface_hub.constants", reason="needs loope[models]")


@contextmanager
def server(answer: bytes | None, monkeypatch):
    """In place of the hub; without an answer it keeps who asks waiting. Gives what has connected."""
    asked = []

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            asked.append(connection)
            if answer is not None:
                connection.recv(10_000)
                connection.sendall(answer)
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("loope.core.hub.PATIENCE", 0.5 if answer is None else 60)
        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in asked:
        connection.close()


def test_a_hub_that_answers_is_used(monkeypatch):
    with server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", monkeypatch) as asked:
        with hub_or_cache():
            assert not constants.is_offline_mode()
        assert len(asked) == 1


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch):
    before = socket.getdefaulttimeout()
    with server(None, monkeypatch) as asked:
        with hub_or_cache():
            assert constants.is_offline_mode()
        with pytest.raises(LoopeError, match="does not answer"), hub_or_cache():
            raise ConnectionError("as the hub's library says it")
        with pytest.raises(KeyError), hub_or_cache():  # which has another cause
            raise KeyError
        assert len(asked) == 3
    assert not constants.is_offline_mode()
    assert socket.getdefaulttimeout() == before


def test_who_is_offline_asks_nothing(monkeypatch):
    with server(None, monkeypatch) as asked:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with hub_or_cache():
            assert constants.is_offline_mode()
        assert not asked


def test_positions_of_a_model_give_up_with_advice(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with server(None, monkeypatch) as asked:
        with pytest.raises(LoopeError, match="does not answer") as error:
            model_table("vit_tiny_patch16_224")
        assert len(asked) == 1
    assert "checkpoint" in str(error.value)
