"""Taking a model's own parameter or module out of its place, and putting it back where it was."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from loope.attach.adapter import Slot


@dataclass
class Taken:
    """What was taken from a slot, apart from the value itself.

    Attributes:
        trainable: whether each parameter was trained.
        order: the names beside it, so that the state dict comes back in its order.
    """

    trainable: list[bool]
    order: list[str]


def take(slot: Slot, zeros: Tensor | None) -> tuple[nn.Module | nn.Parameter, Taken]:
    """Take out what sits in the slot and leave `zeros`, as a buffer outside the state dict, or None."""
    module, name = slot
    value = slot.value
    home = _home(module, value)
    taken = Taken([parameter.requires_grad for parameter in _parameters(value)], list(home))
    for parameter in _parameters(value):
        parameter.requires_grad_(False)
    if zeros is None:
        home[name] = None
    else:
        del home[name]
        lay(slot, zeros)
    return value, taken


def lay(slot: Slot, zeros: Tensor) -> None:
    """Leave `zeros` in the slot."""
    slot.module.register_buffer(slot.attribute, zeros, persistent=False)


def holds_zeros(slot: Slot) -> bool:
    """Whether a table was taken from the slot."""
    return slot.attribute in slot.module._buffers


def give_back(slot: Slot, value: nn.Module | nn.Parameter, taken: Taken) -> None:
    """Put back what was taken, trained or not as it was, at its old place among its siblings."""
    module, name = slot
    if holds_zeros(slot):
        delattr(module, name)
    for parameter, trainable in zip(_parameters(value), taken.trainable, strict=True):
        parameter.requires_grad_(trainable)
    home = _home(module, value)
    home[name] = value
    siblings = {key: home[key] for key in (*taken.order, *home) if key in home}
    home.clear()
    home.update(siblings)


def zeros_like_table(like: nn.Module, rows: int, dim: int) -> Tensor:
    """`(1, rows, dim)` zeros on the device and in the dtype of a module's parameters."""
    parameter = next(like.parameters())
    return torch.zeros(1, rows, dim, device=parameter.device, dtype=parameter.dtype)


def _home(module: nn.Module, value: object) -> dict[str, object]:
    return module._modules if isinstance(value, nn.Module) else module._parameters  # type: ignore[return-value]


def _parameters(value: nn.Module | nn.Parameter) -> list[nn.Parameter]:
    return list(value.parameters()) if isinstance(value, nn.Module) else [value]
