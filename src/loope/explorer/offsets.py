"""The data of the LOOPE view: how far an image moves each patch along the curve, and which neighbours swap."""

from __future__ import annotations

import json
import threading
from typing import Any

import torch

from loope.core.errors import LoopeError, one_of, require
from loope.core.grid import Grid
from loope.encoders.base import create_encoder
from loope.encoders.loope import Loope
from loope.explorer.catalog import check_size
from loope.explorer.serialization import to_json
from loope.explorer.uploads import PIXELS, Weights, read_image, to_pixels
from loope.surgery import specs
from loope.surgery.checkpoint import KEY

ENCODER = "loope.encoders.0."
MOST_PATCH = 64
_ENCODER_LOCK = threading.Lock()  # an encoder's cache of constants is not thread-safe


def read_encoder(weights: Weights) -> Loope:
    """Build LOOPE from a file of `loope.save`, without the model around it.

    Raises:
        LoopeError: if the file has no LOOPE.
    """
    require(KEY in weights.metadata, "The file was not written by loope.save, so it holds no LOOPE.")
    try:
        recipe = json.loads(weights.metadata[KEY])
        chosen = specs.from_json(json.dumps(recipe["attach"]))["encoders"]
        number = next((n for n, (name, _) in enumerate(chosen) if name == "loope"), None)
        require(number is not None, f"The model has {', '.join(name for name, _ in chosen)} attached, but no LOOPE.")
        prefix = f"{ENCODER}{number}."
        state = {k.removeprefix(prefix): v.float() for k, v in weights.tensors.items() if k.startswith(prefix)}
        return _build(chosen[number][1], state, recipe["size"])  # type: ignore[index]
    except LoopeError:
        raise
    except Exception as error:  # a foreign or damaged recipe may raise anything
        raise LoopeError(f"The file's LOOPE cannot be built: {type(error).__name__}: {error}.") from None


def _build(options: dict[str, Any], state: dict[str, torch.Tensor], size: list[int]) -> Loope:
    _, seen, patch, _ = state["generator.patches.weight"].shape
    require(patch <= MOST_PATCH, f"The explorer takes patches of up to {MOST_PATCH} pixels, got {patch}.")
    grid = Grid(size[0] // patch, size[1] // patch)
    check_size(grid)
    # X_C does not depend on width and frequencies, so a width of 2 is enough.
    kept = {key: value for key, value in options.items() if key != "frequencies"}
    channels = seen - 2 * ("xy" in kept.get("inputs", "rgb+xy"))
    encoder = create_encoder("loope", 2, grid, patch_size=patch, channels=max(channels, 1), **kept)
    assert isinstance(encoder, Loope)  # noqa: S101  (for the type checker)
    encoder.load_state_dict(state)
    return encoder.eval()


def offsets_data(encoder: Loope, image: bytes, grid: Grid | None, scale: str) -> bytes:
    """Return JSON: the grid, X_G as `index`, X_C as `offsets`, and `swapped`, pairs of cells that swap on the curve.

    Neighbours on the curve swap where X_G + X_C of the first is above that of the second.

    Raises:
        LoopeError: if the image cannot be read or the grid is too large.
    """
    one_of("scale of pixels", scale, PIXELS)
    seen = encoder.generator.channels if encoder.generator.reads_image else 3
    require(seen == 3, f"This LOOPE reads images of {seen} channels, but images here have 3.")
    place = grid or encoder.grid
    check_size(place)
    patch = encoder.patch_size
    pixels = to_pixels(read_image(image), Grid(place.height * patch, place.width * patch), scale)
    with torch.no_grad(), _ENCODER_LOCK:
        index = encoder.constant("_index", place).long()
        moved = encoder.offsets(pixels, place)[0]
    refined = index + moved
    along = index.argsort()  # the cell at each position
    first, second = along[:-1], along[1:]
    swapped = refined[first] > refined[second]
    return to_json(
        {
            "grid": list(place),
            "patch": patch,
            "index": index.tolist(),
            "offsets": moved.tolist(),
            "swapped": torch.stack((first, second), dim=1)[swapped].tolist(),
        }
    )
