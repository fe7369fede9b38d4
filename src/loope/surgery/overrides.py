"""Overrides of model methods that must include the attachment.

Of timm: weight decay, layer decay, input size. Of transformers: saving and loading.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from loope.core.errors import require
from loope.core.grid import as_grid
from loope.surgery.adapters.base import describe_model
from loope.surgery.adapters.transformers_families import is_transformers
from loope.surgery.find import required_attachment

PREFIX = "loope."


class Override:
    """Replaces a method of one model instance."""

    def __init__(self, model: nn.Module):
        self.model = model

    @classmethod
    def wanted(cls, model: nn.Module) -> bool:
        """Return whether to replace the method, if the model has it."""
        return True

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


class SavePretrained(Override):
    """Describes the attachment in the folder; `loope.load` reads it."""

    @classmethod
    def wanted(cls, model: nn.Module) -> bool:
        return is_transformers(model)

    def __call__(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Write the folder; `from_pretrained`, which would lose the encoders, raises an error that names `loope.load`.

        Raises:
            LoopeError: if the model could not be built again, or would be uploaded without the description.
        """
        from loope.surgery.pretrained import mark_folder

        require(not kwargs.get("push_to_hub"), "To upload an attached model, use loope.HubModel(model).push_to_hub.")
        attachment = required_attachment(self.model)
        about = describe_model(attachment.host.adapter, attachment.own_size, {})
        made = self.own("save_pretrained")(save_directory, *args, **kwargs)
        mark_folder(Path(save_directory), type(self.model), about, attachment.branches[0].pixels)
        return made


class LoadStateDict(Override):
    """Keeps the names of our weights where a class renames those that it does not know: `TimmWrapperModel`."""

    @classmethod
    def wanted(cls, model: nn.Module) -> bool:
        return type(model).load_state_dict is not nn.Module.load_state_dict

    def __call__(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load weights as the model's class does."""
        hook = self.model.register_load_state_dict_pre_hook(_restore_names)  # type: ignore[no-untyped-call]
        try:
            return self.own("load_state_dict")(state_dict, *args, **kwargs)
        finally:
            hook.remove()


def _restore_names(module: nn.Module, state_dict: dict[str, Tensor], *args: Any) -> None:
    for key in list(state_dict):
        _, prefixed, name = key.partition(f".{PREFIX}")
        if prefixed:
            state_dict[PREFIX + name] = state_dict.pop(key)


OVERRIDES: dict[str, type[Override]] = {
    "no_weight_decay": NoWeightDecay,
    "group_matcher": GroupMatcher,
    "set_input_size": SetInputSize,
    "save_pretrained": SavePretrained,
    "load_state_dict": LoadStateDict,
}


def override_methods(model: nn.Module) -> None:
    """Override those methods that the model has."""
    for name, override in OVERRIDES.items():
        if hasattr(type(model), name) and override.wanted(model):
            setattr(model, name, override(model))


def restore_methods(model: nn.Module) -> None:
    """Remove the overrides."""
    for name in OVERRIDES:
        if isinstance(model.__dict__.get(name), Override):
            delattr(model, name)
