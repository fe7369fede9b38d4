"""The one reader of images: what it reads, what it refuses, and what it never starts."""

import os
import subprocess
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from loope.core.errors import LoopeError
from loope.core.images import FORMATS, ImageError, read_image

SOURCE = Path(__file__).parents[2] / "src/loope"


def encoded(file_format: str, mode: str = "RGB", size=(12, 8), **options) -> bytes:
    out = BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(out, file_format, **options)
    return out.getvalue()


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_and_bytes_are_read_alike(file_format, tmp_path):
    content = encoded(file_format)
    (tmp_path / "a").write_bytes(content)
    expected = np.asarray(Image.open(BytesIO(content)).convert("RGB"))
    for source in (content, tmp_path / "a"):
        image = read_image(source)
        assert image.mode == "RGB"
        assert np.array_equal(np.asarray(image), expected)


def test_pixels_keep_their_values_if_no_mode_is_asked_for():
    for mode in ("L", "P"):
        content = encoded("PNG", mode)
        image = read_image(content, None)
        assert image.mode == mode
        assert np.array_equal(np.asarray(image), np.asarray(Image.open(BytesIO(content))))


def test_photographs_are_turned_only_if_asked():
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded("JPEG", exif=exif)
    assert read_image(content).size == (12, 8)
    assert read_image(content, upright=True).size == (8, 12)


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("content", [EPS, encoded("TIFF"), encoded("PPM"), encoded("PDF"), b"", b"hello", b"\x89PNG"])
def test_other_formats_are_not_tried(content, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started a program"))
    monkeypatch.setattr(subprocess, "check_call", lambda *_, **__: pytest.fail("started a program"))
    (tmp_path / "a.jpg").write_bytes(content)
    for source in (content, tmp_path / "a.jpg"):
        with pytest.raises(ImageError):
            read_image(source)


def test_pillow_opens_images_in_one_place_only():
    opening = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if "Image.open(" in path.read_text()}
    assert opening == {Path("core/images.py")}


def test_large_images_are_refused_before_they_are_decoded(monkeypatch):
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda *_: pytest.fail("decoded"))
    with pytest.raises(ImageError, match="up to 95 pixels, got 8x12"):
        read_image(encoded("PNG"), most=95)


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "none.png", tmp_path, tmp_path / "pipe.png"):
        with pytest.raises(ImageError, match="no such file"):
            read_image(path)
    assert issubclass(ImageError, LoopeError)
