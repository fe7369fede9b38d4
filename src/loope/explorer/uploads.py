"""Read uploads: images and safetensors, from bytes and within limits. Nothing is unpickled, no path is opened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from loope.core import images
from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.core.packages import require_packages

if TYPE_CHECKING:
    from PIL.Image import Image

# Normalizations: mean and standard deviation of each channel, for pixels from 0 to 1.
PIXELS = {
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "signed": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def read_image(data: bytes) -> Image:
    """Read an image, upright, in RGB.

    Raises:
        LoopeError: if its format is unknown, it is damaged, or its header announces too many pixels.
    """
    try:
        return images.read_image(data, upright=True)
    except images.ImageError as error:
        raise LoopeError(f"The image cannot be read: {error}.") from None


def to_pixels(image: Image, size: Grid, scale: str) -> Tensor:
    """Resize and normalize an image to `(1, 3, H, W)` float32."""
    from PIL.Image import Resampling

    fitted = image.resize((size.width, size.height), Resampling.BICUBIC)
    pixels = torch.frombuffer(bytearray(fitted.tobytes()), dtype=torch.uint8).view(*size, 3).permute(2, 0, 1)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in PIXELS[scale])
    return ((pixels / 255 - mean) / std)[None]


class Weights(NamedTuple):
    """The content of a safetensors file."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]


def read_weights(data: bytes) -> Weights:
    """Read the tensors and metadata of a safetensors file.

    Raises:
        LoopeError: if it is damaged or not a safetensors file.
    """
    require_packages("Reading checkpoints", "models", "safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that torch does not have
        raise LoopeError(f"This is not a complete .safetensors file: {error}.") from None
    # `load` has validated the header but does not return the metadata.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return Weights(tensors, header.get("__metadata__", {}))
