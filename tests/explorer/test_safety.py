"""What the server refuses, and what it never does."""

import asyncio
import pickle
import struct
import threading
import zlib

import httpx2 as httpx
import pytest
from PIL import Image, ImageFile
from starlette.testclient import TestClient

from loope.core.errors import LoopeError
from loope.core.limits import MOST_PIXELS
from loope.explorer import app as module
from loope.explorer import queue
from loope.explorer.app import create_app
from loope.explorer.middleware import HEADERS, is_loopback
from loope.explorer.uploads import read_image
from tests.explorer.helpers import picture


@pytest.fixture
def client():
    with TestClient(create_app(), base_url="http://localhost:8477") as made:
        yield made


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width: int, height: int) -> bytes:
    """A small, valid PNG file that would fill gigabytes of memory."""
    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(bytes(1 + width // 8)) for _ in range(height)) + rows.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "sides", [(8_000, 8_000), (12_000, 9_000), (20_000, 12_000)]
)  # Pillow is silent, warns, raises
def test_decompression_bombs_are_refused_before_they_are_decoded(client, sides, monkeypatch):
    def decoded(*_):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", decoded)
    body = bomb(*sides)
    assert len(body) < 200_000
    response = client.post("/api/offsets.json", content=body)
    assert response.status_code == 400
    assert f"up to {MOST_PIXELS:,} pixels" in response.json()["error"]


def test_a_large_image_that_is_allowed_is_read():
    assert read_image(bomb(4_000, 200)).size == (4_000, 200)


@pytest.mark.parametrize("file_format", ["TIFF", "PPM", "PDF"])
def test_other_formats_are_not_read(file_format):
    with pytest.raises(LoopeError, match="use one of PNG, JPEG"):
        read_image(picture(file_format=file_format))


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_damaged_images_give_a_message(file_format):
    good = picture(64, 64, file_format)
    assert read_image(good).size == (64, 64)
    for damaged in (good[: len(good) // 2], good[:30], b""):
        with pytest.raises(LoopeError, match="cannot be read"):
            read_image(damaged)


def test_images_are_turned_upright():
    from io import BytesIO

    out, exif = BytesIO(), Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.new("RGB", (20, 10)).save(out, "JPEG", exif=exif)
    assert read_image(out.getvalue()).size == (10, 20)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("was unpickled",))


def test_nothing_is_unpickled(client):
    for body in (pickle.dumps(Trap()), b"PK\x03\x04" + pickle.dumps(Trap()), b"", b"\xff" * 64):
        response = client.post("/api/file.json", content=body)
        assert response.status_code == 400
        assert "complete .safetensors file" in response.json()["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/similarity/file~..%2F..%2Fpyproject.toml/4x4/64.bin",
        "/api/similarity/timm~local-dir:%2Ftmp/4x4/64.bin",
        "/api/similarity/timm~hf-hub:someone%2Fmodel/4x4/64.bin",
        "/api/order/..%2F..%2Fapp.py/4x4.json",
        "/..%2Fapp.py",
        "/%2e%2e/app.py",
        "/api/nothing",
    ],
)
def test_paths_lead_nowhere(client, path):
    response = client.get(path)
    assert response.status_code in (400, 404)
    assert response.json()["error"]
    assert "def " not in response.text


def test_bodies_that_are_too_large(client, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    response = client.post("/api/offsets.json", content=bytes(1001))
    assert response.status_code == 413
    assert "up to" in response.json()["error"]
    assert client.post("/api/offsets.json", content=bytes(1000)).status_code == 400  # read, and no image


def test_a_body_that_does_not_come(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.05)

    async def slowly():
        yield b"a"
        await asyncio.sleep(60)

    async def ask():
        transport = httpx.ASGITransport(create_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/api/offsets.json", content=slowly())

    assert asyncio.run(ask()).status_code == 408


def test_every_answer_has_the_headers(client):
    for path in ("/", "/main.js", "/api/catalog.json", "/api/order/nosuch/4x4.json", "/nothing"):
        headers = client.get(path).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8477", "", "192.168.0.3"])
def test_names_that_someone_else_points_here(client, host):
    response = client.get("/api/catalog.json", headers={"Host": host})
    assert response.status_code == 403
    assert "localhost only" in response.json()["error"]
    with TestClient(create_app(local=False)) as public:
        assert public.get("/", headers={"Host": host}).status_code == 200


def test_own_names_and_own_pages(client):
    for host in ("localhost", "localhost:1", "127.0.0.1:8477", "[::1]:8477", "127.8.8.8"):
        assert client.get("/", headers={"Host": host}).status_code == 200
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert client.get("/", headers={"Sec-Fetch-Site": site}).status_code == status
    for origin, status in (
        ("http://evil.example", 403),
        ("http://localhost:8000", 403),
        ("null", 403),
        ("http://localhost:8477", 200),
    ):
        assert client.get("/", headers={"Origin": origin}).status_code == status
        assert client.post("/api/offsets.json", headers={"Origin": origin}).status_code == (
            status if status > 200 else 400
        )
        assert client.get("/", headers={"Origin": origin, "Sec-Fetch-Site": "same-origin"}).status_code == status
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")  # noqa: S104


def test_internal_errors_do_not_reveal_details(monkeypatch):
    def fault(*_):
        raise RuntimeError("secret insides")

    monkeypatch.setattr("loope.explorer.views.order_data", fault)
    with TestClient(create_app(), base_url="http://localhost", raise_server_exceptions=False) as client:
        response = client.get("/api/order/gilbert/4x4.json")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "Something went wrong" in response.json()["error"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_what_is_under_way_is_bounded_and_shared(monkeypatch):
    monkeypatch.setattr(queue, "MOST_WAITING", 3)
    go, made = threading.Event(), []

    def make(key):
        assert go.wait(30)
        made.append(key)
        return key.encode()

    async def run():
        jobs = queue.Queue()
        asked = [asyncio.ensure_future(jobs.get(key, lambda key=key: make(key))) for key in "aabbc"]
        await asyncio.sleep(0)
        with pytest.raises(queue.Busy):
            await jobs.get("d", lambda: make("d"))
        asked[0].cancel()  # whoever goes away does not take it from the others
        go.set()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [b"a", b"b", b"b", b"c"]
        assert await jobs.get("a", lambda: pytest.fail("made again")) == b"a"
        assert await jobs.get("d", lambda: make("d")) == b"d"
        await jobs.close()

    asyncio.run(run())
    assert sorted(made) == ["a", "b", "c", "d"]


def test_a_mistake_is_not_kept(client):
    async def run():
        jobs = queue.Queue()

        def fail():
            raise LoopeError("no")

        with pytest.raises(LoopeError):
            await jobs.get("key", fail)
        assert await jobs.get("key", lambda: b"yes") == b"yes"
        await jobs.close()

    asyncio.run(run())


def test_busy_is_503(client, monkeypatch):
    monkeypatch.setattr(queue, "MOST_WAITING", 0)
    response = client.get("/api/order/gilbert/4x4.json")
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "1"
    assert "busy" in response.json()["error"]
    monkeypatch.setattr(module, "MOST_ARRIVING", 0)
    assert client.post("/api/offsets.json", content=b"x").status_code == 503


def test_what_is_kept_is_bounded_in_bytes():
    cache = queue.Cache(most=10)
    cache.put("a", b"12345")
    cache.put("b", b"123")
    assert cache.get("a") == b"12345"  # used: now b is the oldest
    cache.put("c", b"1234")
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.get("c") is not None
    cache.put("d", bytes(11))
    assert cache.get("d") is None
    cache.put("c", b"1234")
    assert cache.size == 9
