"""What ships with the page: a tiny ViT with LOOPE, trained on Three-Cell, and encoders alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from loope.core.errors import MissingPackageError, one_of
from loope.encoders.refine import Refinable
from loope.explorer.offsets import read_encoder
from loope.explorer.seeded import seeded
from loope.explorer.serialization import to_json
from loope.explorer.uploads import read_weights
from loope.three_cell.bits import COLOURS
from loope.three_cell.questions import answer, signed_area
from loope.three_cell.rendering import render
from loope.three_cell.sampling import sample_exact

HERE = Path(__file__).parent
SHIPPED = HERE / "three-cell.safetensors"


class ShippedEncoder(NamedTuple):
    """A file with an encoder, written by docs/ship_encoder.py or `loope demo`.

    Attributes:
        path: the file.
        text: what it is, for people.
        pixels: the range of pixels it was trained on, one of `uploads.PIXELS`.
    """

    path: Path
    text: str
    pixels: str = "signed"


# SHIPPED.md says where they come from.
ENCODERS = {
    "pets": ShippedEncoder(HERE / "pets.safetensors", "LOOPE, fine-tuned on Pets"),
    "pets-plane": ShippedEncoder(HERE / "pets-plane.safetensors", "2D sin/cos, refined, fine-tuned on Pets"),
    "three-cell": ShippedEncoder(SHIPPED, "LOOPE, trained on Three-Cell"),
}
CANDIDATES = 64  # for the example that Three-Cell opens with


@lru_cache(maxsize=1)
def shipped() -> nn.Module:
    """Load the model in evaluation mode, from half precision to float32."""
    try:
        import timm  # noqa: F401  # takes a second, in which the explorer's other threads may draw random numbers

        from loope.surgery.checkpoint import load

        with seeded():
            return load(SHIPPED).float()
    except ImportError:
        raise MissingPackageError(
            "The shipped model needs timm and safetensors: pip install 'loope[models]'."
        ) from None


@lru_cache
def shipped_encoder(name: str = "three-cell") -> Refinable:
    """Load a shipped encoder without a model around it, so that most of the page does not wait for timm.

    Raises:
        LoopeError: if there is no encoder of that name.
    """
    one_of("shipped encoder", name, ENCODERS)
    return read_encoder(read_weights(ENCODERS[name].path.read_bytes()))


def ask(cells: list[int], moving: str) -> bytes:
    """Return the model's answers, and where it errs as one cell moves over the grid.

    Args:
        cells: six numbers, row and column of red, green and blue.
        moving: the colour of the cell that moves.

    Returns:
        JSON: the six `label` bits, the model's six `logits`, and `wrong`, the number of wrong bits for each place of
        the moving cell, null where the three cells are collinear.

    Raises:
        LoopeError: if a cell is outside the model's grid.
    """
    one_of("colour", moving, COLOURS)
    encoder = shipped_encoder()
    grid = encoder.grid
    asked = torch.tensor(cells).view(1, 3, 2)
    elsewhere = asked.repeat(grid.size, 1, 1)
    elsewhere[:, COLOURS.index(moving)] = torch.stack(grid.coordinates(), dim=1)
    every = torch.cat((asked, elsewhere))
    with torch.no_grad():
        logits = shipped()(render(every, grid, encoder.patch_size) * 2 - 1)  # the range it was trained on
    labels = answer(every, grid)
    wrong = ((logits > 0) != labels.bool()).sum(1)[1:].tolist()
    valid = (signed_area(elsewhere) != 0).tolist()
    return to_json(
        {
            "label": labels[0].tolist(),
            "logits": logits[0].tolist(),
            "wrong": [count if good else None for count, good in zip(wrong, valid, strict=True)],
        }
    )


def example() -> bytes:
    """Return JSON: three `cells` whose questions the model answers right, of several the one it is surest about."""
    encoder = shipped_encoder()
    cells = sample_exact(encoder.grid, CANDIDATES, torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = shipped()(render(cells, encoder.grid, encoder.patch_size) * 2 - 1)
    right = ((logits > 0) == answer(cells, encoder.grid).bool()).all(1)
    surest = torch.where(right, logits.abs().amin(1), -1.0).argmax()  # the first one if all are wrong
    return to_json({"cells": cells[surest].flatten().tolist()})


def about() -> dict[str, Any]:
    """Return its grid and patch size, and the shipped encoders."""
    encoder = shipped_encoder()
    shipped = [{"id": name, "text": each.text, "pixels": each.pixels} for name, each in ENCODERS.items()]
    return {"grid": list(encoder.grid), "patch": encoder.patch_size, "encoders": shipped}
