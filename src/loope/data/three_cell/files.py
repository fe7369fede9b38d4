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
from loope.core.three_cell import BITS, COLOURS
from loope.data.three_cell.rendering import render

if TYPE_CHECKING:
    from loope.data.three_cell.dataset import ThreeCell

CSV_HEAD = ["file", *(f"{colour}_{axis}" for colour in COLOURS for axis in ("row", "column")), *BITS]


def pixels(data: ThreeCell, start: int, stop: int) -> Any:
    """`(n, H, W, 3)` uint8 array of some of the images."""
    import torch

    images = render(data.cells[start:stop], data.grid, data.cell, dtype=torch.uint8)
    return images.permute(0, 2, 3, 1).contiguous().numpy()


def png(image: Any) -> bytes:
    """A PNG file with the pixels of an `(H, W, 3)` uint8 array."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # the 0 in front of a row: stored as it is, not filtered

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, not interlaced
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def table(data: ThreeCell, names: Iterable[str]) -> str:
    """The CSV table: a line for each image, with its cells and its bits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for name, cells, bits in zip(names, data.cells.flatten(1).tolist(), data.labels.tolist(), strict=True):
        writer.writerow([name, *cells, *bits])
    return text.getvalue()


def write_npz(path: Path, shape: tuple[int, ...], images: Iterable[Any], **arrays: Any) -> None:
    """Write `images`, given piece by piece, and whole `arrays` as an .npz file, atomically and in little memory.

    Args:
        path: the file.
        shape: of all images together, `(n, H, W, 3)`.
        images: uint8 arrays that make up the images, in sequence.
        arrays: written as they are.
    """
    layout = np.lib.format
    # Level 1: the images are nearly all black, and higher levels only take longer.
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
