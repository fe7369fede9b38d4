"""Models that timm.create_model made; see `loope.surgery.adapters.libraries`."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid


def describe(model: Any, size: Grid, channels: int, args: dict[str, Any]) -> dict[str, Any]:
    """Name and arguments."""
    about = getattr(model, "pretrained_cfg", None) or {}
    name = ".".join(part for part in (about.get("architecture"), about.get("tag")) if part)
    require(
        bool(name),
        f"Can only save models made by timm.create_model, which this {type(model).__name__} was not; for others use "
        "safetensors.torch.save_model.",
    )
    found: dict[str, Any] = {"img_size": list(size), "in_chans": channels}
    if hasattr(model, "num_classes"):
        found["num_classes"] = model.num_classes
    else:  # features alone, without a head
        found |= {"features_only": True, "out_indices": list(model.out_indices)}
    return {"name": name, "args": {**found, **args}}


def build(about: dict[str, Any]) -> nn.Module:
    """From the name; never from a file or an address."""
    try:
        import timm
    except ImportError:
        raise LoopeError("The file's model is one of timm's: pip install 'loope[models]'.") from None

    # A name with a scheme, or an argument that names a file, would make timm read what a checkpoint has no say in.
    require(timm.is_model(about["name"]), f"timm has no model {about['name']!r}.")
    args = {key: tuple(value) if isinstance(value, list) else value for key, value in about["args"].items()}
    outside = [key for key in args if key.startswith(("pretrained", "checkpoint", "cache"))]
    require(not outside, f"A model cannot be built with {', '.join(outside)} from a checkpoint.")
    create: Any = timm.create_model
    model: nn.Module = create(about["name"], pretrained=False, **args)
    return model
