"""Find the attachment of a model, wrapped or not."""

from __future__ import annotations

import sys

from torch import nn

from loope.core.errors import LoopeError, require, shown
from loope.surgery.state import Attachment


def attachment_of(model: nn.Module) -> Attachment | None:
    """Return the model's active attachment, or None; attachments of submodules do not count."""
    found = getattr(model._modules.get("loope"), "acting", None)
    return found if isinstance(found, Attachment) else None


def all_attachments(model: nn.Module) -> list[Attachment]:
    """Return the model's attachment and the copies of it that a wrapper keeps."""
    return [module for module in model.loope.modules() if isinstance(module, Attachment)]  # type: ignore[union-attr]


def required_attachment(model: nn.Module) -> Attachment:
    """Return the model's active attachment.

    Raises:
        LoopeError: if nothing is attached.
    """
    require(isinstance(model, nn.Module), f"Expected a model (torch.nn.Module), got {shown(model)}.")
    found = attachment_of(model)
    if found is not None:
        return found
    for name, part in model.named_modules():
        if attachment_of(part) is not None:
            raise LoopeError(
                f"Nothing is attached to this {type(model).__name__} itself, but to the {type(part).__name__} inside "
                f"it: pass `model.{name}`, and wrap it again if that changes it."
            )
    raise LoopeError(f"Nothing is attached to this {type(model).__name__}; call loope.attach(model, ...) first.")


def sole_attachment(model: nn.Module) -> Attachment:
    """Return the attachment of a model where no other library has wrapped it.

    Raises:
        LoopeError: if nothing is attached, or a wrapper such as PEFT's replaces the attachment.
    """
    found = required_attachment(model)
    require(
        model.loope is found,
        f"A {type(model.loope).__name__} has taken the place of `model.loope`; merge or unload it first, with PEFT by "
        "`model = peft_model.merge_and_unload()`.",
    )
    return found


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside DistributedDataParallel, DataParallel and torch.compile."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # importing it takes seconds
    compiled = () if dynamo is None else (dynamo.OptimizedModule,)
    while True:
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        elif isinstance(model, compiled):
            model = model._orig_mod
        else:
            return model


def require_merged(model: nn.Module) -> None:
    """Check that the model has no PEFT modules, which a file could not rebuild.

    Raises:
        LoopeError: if it has.
    """
    require(isinstance(model, nn.Module), f"Expected a model (torch.nn.Module), got {shown(model)}.")
    strange = next((each for each in model.modules() if type(each).__module__.startswith("peft.")), None)
    require(
        strange is None,
        f"Expected a model without PEFT's modules, found a {type(strange).__name__}: merge them with `merged = "
        "peft_model.merge_and_unload()` and save `merged`, or save the adapter alone with PEFT's save_pretrained.",
    )
