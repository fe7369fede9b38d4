"""What visitors may send: images and safetensors, as bytes within limits. Nothing is unpickled, no path is opened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from loope.core import images
from loope.core.errors import LoopeError, MissingPackageError
from loope.core.grid import Grid

if TYPE_CHECKING:
    from PIL.Image import Image

# How a model wants its pixels: mean and standard deviation of each channel, for pixels from 0 to 1.
PIXELS = {
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "signed": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def read_image(data: bytes) -> Image:
    """The picture, upright, in RGB.

    Raises:
        LoopeError: if it is none of the known formats, damaged, or has too many pixels, which its first bytes say
            before any of them is decoded.
    """
    try:
        return images.read_image(data, upright=True)
    except images.ImageError as error:
        raise LoopeError(f"The image cannot be read: {error}.") from None


def to_pixels(image: Image, size: Grid, scale: str) -> Tensor:
    """`(1, 3, H, W)` float32: the image at another size, its pixels as a model wants them."""
    from PIL.Image import Resampling

    fitted = image.resize((size.width, size.height), Resampling.BICUBIC)
    pixels = torch.frombuffer(bytearray(fitted.tobytes()), dtype=torch.uint8).view(*size, 3).permute(2, 0, 1)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in PIXELS[scale])
    return ((pixels / 255 - mean) / std)[None]


class Weights(NamedTuple):
    """A safetensors file's content."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]


def read_weights(data: bytes) -> Weights:
    """All tensors of a safetensors file, and what it says of itself.

    Raises:
        LoopeError: if it is damaged, or something else.
    """
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load
    except ImportError:
        raise MissingPackageError("Reading checkpoints needs safetensors: pip install 'loope[models]'.") from None
    try:
        tensors = load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that torch does not have
        raise LoopeError(f"This is no whole .safetensors file: {error}.") from None
    # The library has checked the header; it only does not hand out this part of it.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return Weights(tensors, header.get("__metadata__", {}))
