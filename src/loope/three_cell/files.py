"""The files of a Three-Cell export: PNG images, a CSV table, an .npz archive. Nothing in them is pickled."""

from __future__ import annotations

import csv
import io
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loope.core.files import replacing
from loope.three_cell.bits import BITS, COLOURS
from loope.three_cell.rendering import render

if TYPE_CHECKING:
    from loope.three_cell.dataset import ThreeCell

CSV_HEAD = ["file", *(f"{colour}_{axis}" for colour in COLOURS for axis in ("row", "column")), *BITS]


def pixels(data: ThreeCell, start: int, stop: int) -> Any:
    """Return some of the images as an `(n, H, W, 3)` uint8 array."""
    import torch

    images = render(data.cells[start:stop], data.grid, data.cell, dtype=torch.uint8)
    return images.permute(0, 2, 3, 1).contiguous().numpy()


def png(image: Any) -> bytes:
    """Encode an `(H, W, 3)` uint8 array as PNG."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # the 0 before each row: no filter

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, not interlaced
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def table(data: ThreeCell, names: Iterable[str]) -> str:
    """Return the CSV table: one line per image, with its cells and bits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for name, cells, bits in zip(names, data.cells.flatten(1).tolist(), data.labels.tolist(), strict=True):
        writer.writerow([name, *cells, *bits])
    return text.getvalue()


def write_npz(path: Path, shape: tuple[int, ...], images: Iterable[Any], **arrays: Any) -> None:
    """Write `images`, given in pieces, and `arrays` to an .npz file, atomically and with little memory.

    Args:
        path: the file.
        shape: shape of all images together, `(n, H, W, 3)`.
        images: consecutive pieces of the images, uint8.
        arrays: written as they are.
    """
    layout = np.lib.format
    # Level 1: the images are almost black, and higher levels only take longer.
    with (
        replacing(path) as whole,
        zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for name, array in arrays.items():
            with _entry(archive, name) as file:
                layout.write_array(file, array, allow_pickle=False)
        with _entry(archive, "images") as file:
            layout.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for piece in images:
                file.write(piece.tobytes())


def _entry(archive: zipfile.ZipFile, name: str) -> Any:
    # The fixed date of ZipInfo: the same data gives the same bytes.
    info = zipfile.ZipInfo(f"{name}.npy")
    info.compress_type = zipfile.ZIP_DEFLATED
    return archive.open(info, "w", force_zip64=True)
