"""Overrides of timm model methods that must include the attachment: weight decay, layer decay, input size."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import nn

from loope.core.errors import require
from loope.core.grid import as_grid
from loope.surgery.find import required_attachment

PREFIX = "loope."


class Override:
    """Replaces a method of one model instance."""

    def __init__(self, model: nn.Module):
        self.model = model

    def own(self, name: str) -> Callable[..., Any]:
        """Return the method of the model's class."""
        method: Callable[..., Any] = getattr(type(self.model), name).__get__(self.model)
        return method


class NoWeightDecay(Override):
    """Adds the attachment's parameters to those without weight decay."""

    def __call__(self) -> set[str]:
        """Return the names for timm's optimizer factory."""
        attachment, names = required_attachment(self.model), set(self.own("no_weight_decay")())
        for number in range(len(attachment.branches)):
            for place, encoder in enumerate(attachment.encoders_of(number)):
                names |= {f"{PREFIX}encoders.{number}.{place}.{name}" for name in encoder.no_weight_decay()}
        return names | {f"{PREFIX}prefixes.{name}" for name in attachment.prefixes}


class GroupMatcher(Override):
    """Assigns the encoders to the stem for timm's layer decay."""

    def __call__(self, coarse: bool = False) -> Any:
        """Return a dictionary of patterns or a function, whichever the model uses."""
        own = self.own("group_matcher")(coarse=coarse)
        if callable(own):
            return lambda name: 0 if name.startswith(PREFIX) else own(name)
        stem = own["stem"]
        if isinstance(stem, str):
            return {**own, "stem": f"{stem}|^{re.escape(PREFIX)}"}
        return {**own, "stem": [*stem, (f"^{re.escape(PREFIX)}", None)]}


class SetInputSize(Override):
    """Resizes the encoders along with the model."""

    def __call__(self, img_size: Any = None, patch_size: Any = None) -> None:
        """Change the image size; the patch size cannot change while encoders are attached."""
        from loope.surgery.attach import resize

        side = required_attachment(self.model).branches[0].patch_size
        require(
            patch_size is None or as_grid(patch_size, "patch_size") == (side, side),
            f"The patch size cannot change from {side} to {patch_size} while something is attached; detach first.",
        )
        if img_size is not None:
            resize(self.model, img_size)


OVERRIDES: dict[str, type[Override]] = {
    "no_weight_decay": NoWeightDecay,
    "group_matcher": GroupMatcher,
    "set_input_size": SetInputSize,
}


def override_methods(model: nn.Module) -> None:
    """Override those methods that the model has."""
    for name, override in OVERRIDES.items():
        if hasattr(type(model), name):
            setattr(model, name, override(model))


def restore_methods(model: nn.Module) -> None:
    """Remove the overrides."""
    for name in OVERRIDES:
        if isinstance(model.__dict__.get(name), Override):
            delattr(model, name)
