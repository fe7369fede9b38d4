"""Seeded random requests to the page: addresses near the valid ones, numbers and names of any size, damaged files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, urlencode

import torch
from safetensors.torch import save

import loope
from loope.explorer.diagnosis import MEASURED
from loope.three_cell.bits import COLOURS
from tests.explorer.helpers import picture

PIECES = (
    "",
    "~",
    "-",
    "x",
    "/",
    "..",
    "%",
    "\0",
    "é",
    "²",
    "𝟚",
    "null",
    "NaN",
    "1e999",
    "-1",
    "0x10",
    "[/b]",
    "\x1b[31m",
)
LONGEST = 60_000  # characters of an address; clients refuse more
HEADERS = (("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site"), ("Content-Type", "text/plain"))


class Sent(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None


def requests(count: int, seed: int) -> Iterator[Sent]:
    """Generate `count` requests, determined by the seed."""
    draw = random.Random(seed)
    kinds = [_similarity, _similarity, _order, _three_cell, _file, _offsets, _diagnosis, _measured, _anything]
    for _ in range(count):
        method, path, body = draw.choice(kinds)(draw)
        headers = dict([draw.choice(HEADERS)]) if draw.random() < 0.05 else {}
        if draw.random() < 0.03:
            method = draw.choice(("GET", "POST", "PUT", "HEAD"))
        yield Sent(method, path[:LONGEST], headers, body)


def number(draw: random.Random, usual: int = 16) -> str:
    """Return a number, usually a valid one."""
    if draw.random() < 0.7:
        return str(draw.randint(1, usual))
    odd = [str(draw.randint(-5, 10**6)), "9" * draw.choice((7, 20, 400, 4301, 6000)), "0", "٣", draw.choice(PIECES)]
    return draw.choice([*odd, f"{draw.random():.3g}", "00007", " 4", "4_0"])


def text(draw: random.Random, known: list[str]) -> str:
    """Return a name, usually a known one or close to it."""
    chosen = draw.choice(known)
    if draw.random() < 0.7:
        return chosen
    if draw.random() < 0.2:
        return draw.choice("aé~") * draw.choice((300, 5000, 60_000))
    at = draw.randint(0, len(chosen))
    return chosen[:at] + draw.choice(PIECES) + chosen[at + draw.randint(0, 2) :]


def _similarity(draw: random.Random) -> tuple[str, str, None]:
    choice = text(draw, [*loope.list_encoders(), "file~0123", "file~0~aside~1", "file~0~acts~0", "file"])
    for _ in range(draw.choice((0, 0, 1, 2))):
        key = text(draw, ["order", "frequencies", "phase", "gamma", "temperature", "base", "dim"])
        choice += f"~{key}~{draw.choice([number(draw), text(draw, loope.list_orders())])}"
    width = draw.choice([number(draw, 200), draw.choice(("48", "96", "192"))])  # rotary encoders need such a one
    size = "~".join(f"{number(draw)}x{number(draw)}" for _ in range(draw.choice((1, 1, 1, 2, 2, 3))))
    return "GET", f"/api/similarity/{quote(choice)}/{quote(size)}/{quote(width)}.bin", None


def _order(draw: random.Random) -> tuple[str, str, None]:
    name = quote(text(draw, loope.list_orders()))
    return "GET", f"/api/order/{name}/{quote(number(draw))}x{quote(number(draw))}.json", None


def _three_cell(draw: random.Random) -> tuple[str, str, None]:
    cells = "-".join(number(draw, 4) for _ in range(draw.choice((6, 6, 6, 5, 7))))
    return "GET", f"/api/three-cell/{quote(text(draw, list(COLOURS)))}/{quote(cells)}.json", None


def _file(draw: random.Random) -> tuple[str, str, bytes]:
    tensors = {
        text(draw, ["pos_embed", "head.weight", "loope.own.pos_embed", "loope._extra_state", "pos_embed.weight"]): (
            torch.rand([draw.choice((0, 1, 1, 2, 5, 17)) for _ in range(draw.randint(0, 4))])
        )
        for _ in range(draw.randint(0, 3))
    }
    encoders = [[text(draw, loope.list_encoders()), {}]]
    recipe = {
        "format": 1,
        "model": {"library": "timm", "name": "vit_tiny_patch16_224", "args": {}},
        "attach": {"encoders": encoders, "keep_own": draw.random() < 0.5, "prefix": "none"},
        "size": [draw.choice((16, 0, -4, "9" * 9)), 16],
    }
    metadata_text = draw.choice(
        [json.dumps(recipe), "{}", "[" * 5000, "9" * 5000, "null", json.dumps({**recipe, "attach": 3})]
    )
    body = save(tensors, metadata=draw.choice([None, {"loope": metadata_text}]))
    return "POST", "/api/file.json", _damaged(draw, body)


def _offsets(draw: random.Random) -> tuple[str, str, bytes]:
    body = picture(draw.randint(1, 40), draw.randint(1, 40), draw.choice(("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")))
    keys = [key for key in ("height", "width", "pixels", "checkpoint", "other") if draw.random() < 0.4]
    values = {key: draw.choice([number(draw), text(draw, ["unit", "signed", "imagenet", "shipped"])]) for key in keys}
    return "POST", f"/api/offsets.json?{urlencode(values, errors='replace')}", _damaged(draw, body)


def _diagnosis(draw: random.Random) -> tuple[str, str, bytes]:
    pictures = [picture(draw.randint(1, 40), draw.randint(1, 40)) for _ in range(draw.choice((0, 1, 2, 3, 17)))]
    keys = [key for key in ("pixels", "checkpoint", "other") if draw.random() < 0.4]
    values = {key: text(draw, ["unit", "signed", "imagenet", "shipped"]) for key in keys}
    body = b"".join(len(each).to_bytes(4, "little") + each for each in pictures)
    return "POST", f"/api/diagnosis.json?{urlencode(values, errors='replace')}", _damaged(draw, body)


def _measured(draw: random.Random) -> tuple[str, str, None]:
    return "GET", f"/api/diagnosis/measured/{quote(text(draw, list(MEASURED)))}.json", None


def _anything(draw: random.Random) -> tuple[str, str, None]:
    parts = [draw.choice(["api", "similarity", "order", "main.js", "index.html", *PIECES]) for _ in range(3)]
    return "GET", "/" + "/".join(quote(part) for part in parts).lstrip("/"), None  # "//" would be another host


def _damaged(draw: random.Random, body: bytes) -> bytes:
    """Change, cut or add bytes in one of three cases."""
    if draw.random() < 0.66 or not body:
        return body
    changed = bytearray(body)
    for _ in range(draw.randint(1, 8)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return draw.choice([bytes(changed), body[: draw.randrange(len(body))], body + bytes(9)])
