"""The data of the Model view: what the tokens and the attention of a whole model do with positions, layer by layer."""

from __future__ import annotations

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, one_of, require
from loope.core.grid import Grid
from loope.explorer.catalog import check_size
from loope.explorer.model import HERE, shipped
from loope.explorer.serialization import to_json
from loope.explorer.uploads import PIXELS, read_image, to_pixels
from loope.surgery.checkpoint import load
from loope.surgery.find import attachment_of
from loope.three_cell.rendering import render
from loope.three_cell.sampling import sample_exact

FEWEST, MOST_IMAGES = 2, 16
BUILT_IN = 16  # Three-Cell images
CELLS = Grid(5, 5)  # of these

# Results of models whose weights are too large to ship, as files of docs/ship_diagnosis.py; SHIPPED.md says where they
# come from. The view opens with the first.
MEASURED = {
    "vit-tiny": "ViT-Tiny, own table (pretrained)",
    "vit-tiny-loope": "ViT-Tiny, LOOPE fitted to that table, not trained",
    "vit-tiny-loope-pets": "ViT-Tiny, LOOPE fitted to that table, fine-tuned on Pets",
}


def measured_data(name: str) -> bytes:
    """Return a shipped result, with rounded numbers.

    Raises:
        LoopeError: if there is none of that name.
    """
    one_of("shipped diagnosis", name, MEASURED)
    return (HERE / f"{name}.json").read_bytes()


def shipped_data(body: bytes, scale: str) -> bytes:
    """Return the data of the shipped model; `body` as `split_images` takes it."""
    return diagnosis_data(copy.deepcopy(shipped()), body, scale)  # other requests must not run through our hooks


def file_data(file: bytes, body: bytes, scale: str) -> bytes:
    """Return the data of the model in a file of `loope.save`.

    Raises:
        LoopeError: if the file does not hold a whole model.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.safetensors"
        path.write_bytes(file)
        try:
            return diagnosis_data(load(path).float(), body, scale)
        except LoopeError as error:
            raise LoopeError(str(error).replace(str(path), "The file")) from None


def diagnosis_data(model: nn.Module, body: bytes, scale: str) -> bytes:
    """Return JSON: variances and share by layer, colours of the artefact maps, and how far heads look.

    Args:
        model: the model; it is run.
        body: images, as `split_images` takes them.
        scale: one of `PIXELS`.

    Raises:
        LoopeError: if an image cannot be read, there are too few or too many, or the model is none that loope supports.
    """
    from loope.diagnostics.attention import AttentionCollector  # loads torchmetrics, which the other views do not need
    from loope.diagnostics.share import TokenCollector, artifacts_of, shares_of
    from loope.diagnostics.tokens import Watched

    one_of("scale of pixels", scale, PIXELS)
    watched = Watched(model)
    branch = watched.branch
    check_size(branch.grid)
    require(branch.channels == 3, f"The model reads images of {branch.channels} channels, but images here have 3.")
    pixels = _pixels(split_images(body), branch.pixels, scale)
    tokens, attention = TokenCollector(watched.layer_names), AttentionCollector(watched)
    looks: dict[str, object]
    try:
        tokens.add(attention.run(pixels))
        found = attention.found()
        looks = {"distance": found.distance.tolist(), "prefix": found.prefix.tolist(), "uniform": found.uniform}
    except LoopeError as error:  # windows, for example
        tokens = TokenCollector(watched.layer_names)
        tokens.add(watched.run(pixels))
        looks = {"error": str(error)}
    shares, artifacts = shares_of(*tokens.found()), artifacts_of(*tokens.found())
    attached = attachment_of(model)
    return to_json(
        {
            "model": type(model).__name__,
            "encoders": [] if attached is None else [each.name for each in attached.encoders_of(0)],
            "grid": list(shares.grid),
            "size": list(branch.pixels),
            "images": shares.images,
            "layers": shares.layers,
            "share": _numbers(shares.share),
            "parts": {name: _numbers(getattr(shares, name)) for name in ("position", "image", "local")},
            "colours": (artifacts.colours() * 255).round().int().flatten(1, 2).tolist(),
            "attention": looks,
        }
    )


def built_in() -> Tensor:
    """Return the cells of the built-in Three-Cell images, `(n, 3, 2)` int64: row and column of red, green, blue."""
    return sample_exact(CELLS, BUILT_IN, torch.Generator().manual_seed(0))


def about() -> dict[str, object]:
    """Return the shipped results, what the page needs to draw the built-in images, and how many images it may send."""
    measured = [{"id": name, "text": text} for name, text in MEASURED.items()]
    return {"measured": measured, "grid": list(CELLS), "cells": built_in().flatten(1).tolist(), "most": MOST_IMAGES}


def split_images(body: bytes) -> list[bytes]:
    """Split a body into images: each is preceded by its length, 4 bytes, little endian. None for the built-in ones.

    Raises:
        LoopeError: if a length is wrong, or there is one image or too many.
    """
    found, at = [], 0
    while at < len(body):
        length = int.from_bytes(body[at : at + 4], "little")
        at += 4 + length
        require(length > 0 and at <= len(body), "The images are not complete; choose them again.")
        found.append(body[at - length : at])
        require(len(found) <= MOST_IMAGES, f"Choose up to {MOST_IMAGES} images.")
    require(not found or len(found) >= FEWEST, f"Position and content can be told apart with {FEWEST} images or more.")
    return found


def _pixels(images: list[bytes], size: Grid, scale: str) -> Tensor:
    """Return images `(B, 3, H, W)`, the built-in ones if there are none."""
    if images:
        return torch.cat([to_pixels(read_image(each), size, scale) for each in images])
    drawn = render(built_in(), CELLS, 1)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in PIXELS[scale])
    return (nn.functional.interpolate(drawn, tuple(size), mode="nearest") - mean) / std


def _numbers(values: Tensor) -> list[float | None]:
    """Return numbers for JSON, which has no NaN."""
    return [float(value) if value.isfinite() else None for value in values]
