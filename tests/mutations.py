"""Damaged files by seed: bytes of valid files are changed, cut, repeated and mixed."""

import random
from io import BytesIO

import numpy as np
from PIL import Image

FLAT = {"png": [{}, {"optimize": True}], "gif": [{}], "bmp": [{}]}  # formats that keep a mask's values
FORMATS = {
    **FLAT,
    "jpeg": [{"quality": 90}, {"progressive": True}, {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}],
    "webp": [{"lossless": True}, {"quality": 50}],
}


def _encoded(file_format: str, pixels: np.ndarray, mode: str, options: dict) -> bytes:
    out = BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, file_format, **options)
    return out.getvalue()


def images(seed: int = 0, size=(24, 36)) -> list[bytes]:
    """Create valid images in every supported format and several modes."""
    random_pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    smooth = np.add.outer(np.arange(size[0]) * 9, np.arange(size[1]) * 5).astype(np.uint8)[..., None].repeat(3, 2)
    modes = {"png": ["RGB", "RGBA", "L", "P", "1", "I;16", "LA"], "gif": ["P"], "bmp": ["RGB", "L", "1"]}
    return [
        _encoded(kind, pixels, mode, options)
        for kind, variants in FORMATS.items()
        for options in variants
        for mode in modes.get(kind, ["RGB"])
        for pixels in (random_pixels, smooth)
        if mode != "I;16"
    ] + [_encoded("png", smooth[..., 0].astype(np.uint16) * 257, "I;16", {})]


def masks(classes: int, size=(24, 36)) -> list[bytes]:
    """Create valid masks with values below `classes`."""
    rows = (np.arange(size[0]) * classes // size[0]).astype(np.uint8)[:, None].repeat(size[1], 1)
    return [
        _encoded(kind, rows, mode, options)
        for kind, variants in FLAT.items()
        for options in variants
        for mode in ("L", "P")
        if (kind, mode) != ("gif", "L")
    ]


def mutated(good: list[bytes], seed: int) -> bytes:
    """Damage one of the files, mostly near the beginning, where sizes and types are."""
    choose = random.Random(seed)
    data = bytearray(choose.choice(good))
    for _ in range(choose.choice([1, 1, 2, 3, 8, 30])):
        place = choose.randrange(max(1, len(data) if choose.random() < 0.4 else min(len(data), 120)))
        kind = choose.randrange(7)
        if kind == 0:
            data[place : place + 1] = bytes([choose.randrange(256)])
        elif kind == 1:
            data[place : place + 1] = bytes([data[place] ^ 1 << choose.randrange(8)]) if data else b""
        elif kind == 2:
            width = choose.choice([1, 2, 4, 8])
            data[place : place + width] = choose.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * width
        elif kind == 3:
            del data[place : place + choose.randrange(1, 40)]
        elif kind == 4:
            data[place:place] = data[place : place + choose.randrange(1, 60)]
        elif kind == 5:
            other = choose.choice(good)
            start = choose.randrange(len(other))
            data[place : place + 20] = other[start : start + 20]
        elif choose.random() < 0.3:
            del data[place:]
    return bytes(data)
