"""How a model was made, in words that a file can hold, and how it is made again: a maker for each library.

A maker is a module with `describe(model, size, channels, args)`, which gives plain data, and `build(about)`, which
makes the model from them. It is imported when a model or a file names its library; nothing else is built from a file.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from loope.core.errors import one_of, require
from loope.core.grid import Grid

MAKERS = {
    "timm": "loope.surgery.adapters.made_by_timm",
    "transformers": "loope.surgery.adapters.made_by_transformers",
    "loope": "loope.segmentation.made_here",
}


def describe(model: nn.Module, size: Grid, channels: int, args: dict[str, Any]) -> dict[str, Any]:
    """What `build` needs to make the model again, without its weights.

    Args:
        model: of a library that has a maker.
        size: the size of images that its own position table is for.
        channels: of the images.
        args: what it was created with beyond what can be found out.

    Raises:
        LoopeError: if it cannot be made again.
    """
    library = type(model).__module__.partition(".")[0]
    require(
        library in MAKERS,
        f"Can only save models made by timm.create_model, transformers or loope.segmentation, got "
        f"{type(model).__name__}; for others use safetensors.torch.save_model.",
    )
    return {"library": library, **import_module(MAKERS[library]).describe(model, size, channels, args)}


def build(about: dict[str, Any]) -> nn.Module:
    """The model that `describe` described, with new weights.

    Raises:
        LoopeError: if the description is not one of ours.
    """
    one_of("library", about["library"], MAKERS)
    model: nn.Module = import_module(MAKERS[about["library"]]).build(about)
    return model
