"""The data of the LOOPE view: how far an image moves each patch, and which neighbours on the curve swap."""

from __future__ import annotations

import json
import threading
from typing import Any

import torch

from loope.core.errors import LoopeError, one_of, require
from loope.core.grid import Grid
from loope.encoders.create import create_encoder
from loope.encoders.refine import Refinable, as_refinement
from loope.explorer.catalog import check_size
from loope.explorer.seeded import seeded
from loope.explorer.serialization import to_json
from loope.explorer.uploads import PIXELS, Weights, read_image, to_pixels
from loope.surgery import specs
from loope.surgery.checkpoint import KEY

ENCODER = "loope.encoders.0."
MOST_PATCH = 64
ON_CURVE = ("loope", "sinusoid", "gilbert")
WIDE = ("frequencies", "phase", "policy", "project")  # options of the vectors, which offsets do not depend on
_ENCODER_LOCK = threading.Lock()  # an encoder's cache of constants is not thread-safe


def read_encoder(weights: Weights) -> Refinable:
    """Build LOOPE, or an encoder with its generator, from a file of `loope.save`, without the model around it.

    Raises:
        LoopeError: if the file has no encoder that an image refines.
    """
    require(KEY in weights.metadata, "The file was not written by loope.save, so it holds no LOOPE.")
    try:
        recipe = json.loads(weights.metadata[KEY])
        chosen = specs.from_json(json.dumps(recipe["attach"]))["encoders"]
        number = next((n for n, (name, given) in enumerate(chosen) if name == "loope" or given.get("refine")), None)
        require(
            number is not None,
            f"The model has {', '.join(name for name, _ in chosen)} attached, but no LOOPE, nor `refine`.",
        )
        _, options = chosen[number]  # type: ignore[index]
        inside = "encoder." if options.get("project") else ""  # of the projection that was fitted to a table
        prefix = f"{ENCODER}{number}.{inside}generator."
        state = {k.removeprefix(prefix): v.float() for k, v in weights.tensors.items() if k.startswith(prefix)}
        return _build(*chosen[number], state, recipe["size"])  # type: ignore[index]
    except LoopeError:
        raise
    except Exception as error:  # a foreign or damaged recipe may raise anything
        raise LoopeError(f"The file's LOOPE cannot be built: {type(error).__name__}: {error}.") from None


@seeded()
def _build(name: str, options: dict[str, Any], state: dict[str, torch.Tensor], size: list[int]) -> Refinable:
    _, seen, patch, _ = state["patches.weight"].shape
    require(patch <= MOST_PATCH, f"The explorer takes patches of up to {MOST_PATCH} pixels, got {patch}.")
    grid = Grid(size[0] // patch, size[1] // patch)
    check_size(grid)
    refinement = as_refinement(options.get("refine"))
    inputs = refinement.inputs if refinement else options.get("inputs", "rgb+xy")
    channels = max(seen - 2 * ("xy" in inputs), 1)
    # Offsets depend on the generator and the curve alone: the narrowest encoder that has them is enough.
    if name in ON_CURVE:
        kept = {key: value for key, value in options.items() if key not in WIDE}
    else:
        name, kept = "sincos2d", {"refine": refinement}
    encoder = create_encoder(name, 4, grid, patch_size=patch, channels=channels, **kept)
    assert isinstance(encoder, Refinable)  # noqa: S101  (for the type checker)
    assert encoder.generator is not None  # noqa: S101
    encoder.generator.load_state_dict(state)
    return encoder.eval()


def offsets_data(encoder: Refinable, image: bytes, grid: Grid | None, scale: str) -> bytes:
    """Return JSON: the grid, X_G as `index`, X_C as `offsets`, and `swapped`, pairs of cells that swap on the curve.

    Neighbours on the curve swap where X_G + X_C of the first is above that of the second. In the plane `index` is null,
    offsets are pairs of rows and columns, and nothing swaps.

    Raises:
        LoopeError: if the image cannot be read or the grid is too large.
    """
    one_of("scale of pixels", scale, PIXELS)
    generator = encoder.generator
    assert generator is not None  # noqa: S101  (`read_encoder` has made it)
    seen = generator.channels if generator.reads_image else 3
    require(seen == 3, f"This LOOPE reads images of {seen} channels, but images here have 3.")
    place = grid or encoder.grid
    check_size(place)
    patch = encoder.patch_size
    pixels = to_pixels(read_image(image), Grid(place.height * patch, place.width * patch), scale)
    with torch.no_grad(), _ENCODER_LOCK:
        moved = encoder.offsets(pixels, place)[0]
        if generator.outputs == 2:
            flat = {"grid": list(place), "patch": patch, "index": None, "offsets": moved.tolist(), "swapped": []}
            return to_json(flat)
        index = encoder.constant("_index", place).long()
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
