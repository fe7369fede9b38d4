"""Connections that send half a request, or nothing: on the real server."""

import socket
import time
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from loope.explorer import server
from tests.explorer.servers import explorer

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = b"POST /api/file.json HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nhalf"


@pytest.fixture(scope="module")
def address():
    with explorer() as running:
        yield running


def connect(address, sent):
    port = int(address.rsplit(":", 1)[1].strip("/"))
    made = socket.create_connection(("127.0.0.1", port), timeout=30)
    made.sendall(sent)
    return made


def closed(connection):
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def status(address, path=""):
    with urlopen(address + path, timeout=30) as response:  # noqa: S310
        return response.status


@pytest.mark.parametrize("sent", [HEAD, HEAD[:7], b"", BODY])
def test_half_sent_requests_do_not_keep_others_out(address, sent, monkeypatch):
    monkeypatch.setattr(server, "MOST_PER_PEER", 8)
    with ExitStack() as stack:
        half = [stack.enter_context(connect(address, sent)) for _ in range(20)]
        assert status(address) == 200
        assert closed(half[0])  # the oldest had to go
        half[-1].settimeout(0.1)
        with pytest.raises(TimeoutError):  # the newest is waited for
            half[-1].recv(1)


@pytest.mark.parametrize("drip", [False, True])
def test_a_head_must_arrive_in_time(address, drip, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.3)
    with connect(address, HEAD) as half:
        for _ in range(20 if drip else 0):  # an occasional byte does not reset the timeout
            try:
                half.sendall(b"X")
            except OSError:
                return
            time.sleep(0.1)
        assert closed(half)


def test_a_second_request_must_arrive_in_time_too(address, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.3)
    with connect(address, HEAD + b"\r\n") as kept:
        answer = b""
        while b"</html>" not in answer:
            answer += kept.recv(10**6)
        assert answer.startswith(b"HTTP/1.1 200")
        kept.sendall(HEAD)
        assert closed(kept)


def test_whoever_is_answered_is_not_sent_away(address, monkeypatch):
    """Requests that are whole are answered, however many there are."""
    monkeypatch.setattr(server, "MOST_PER_PEER", 4)
    with ExitStack() as stack:
        asked = b"GET /api/similarity/gilbert/20x%d/64.bin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        whole = [stack.enter_context(connect(address, asked % width)) for width in range(15, 18)]
        assert status(address) == 200  # the server has read what came before
        stack.enter_context(connect(address, HEAD))
        stack.enter_context(connect(address, HEAD))
        for each in whole:
            assert each.recv(100).startswith(b"HTTP/1.1 200")
