"""The arguments of `attach` as plain data, stored in checkpoints to rebuild the attachment."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypedDict

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require, shown
from loope.encoders.generator import ImageRefinement
from loope.orders import Order


class _Strengths(TypedDict, total=False):
    strengths: list[float]  # of the encoders and of the model's own encoding, if set


class Spec(_Strengths):
    """The arguments of `attach`."""

    encoders: list[tuple[str, dict[str, Any]]]
    keep_own: bool
    prefix: str


def names(spec: Spec) -> str:
    """Return the encoders' names, for messages."""
    return " + ".join(repr(name) for name, _ in spec["encoders"])


def strengths(spec: Spec) -> tuple[float, float]:
    """Return the strengths of the encoders and of the model's own encoding; 1 if they were not set.

    Raises:
        LoopeError: if they are not two numbers from 0 to 1.
    """
    found: Any = spec.get("strengths", [1.0, 1.0])
    require(
        isinstance(found, list)
        and len(found) == 2
        and all(isinstance(each, int | float) and 0 <= each <= 1 for each in found),
        f"The checkpoint's strengths must be two numbers from 0 to 1, got {shown(found)}.",
    )
    return float(found[0]), float(found[1])


def require_same(ours: Spec, theirs: Spec) -> None:
    """Check that a checkpoint was saved with the encoders that are attached.

    Raises:
        LoopeError: naming both.
    """
    require(
        names(ours) == names(theirs),
        f"The model has {names(ours)} attached, but the checkpoint was saved with {names(theirs)}; attach "
        f"{names(theirs)} first, or use loope.load, which does.",
    )
    mine, other = to_json(ours["encoders"]), to_json(theirs["encoders"])
    require(
        mine == other,
        f"The model's encoders were attached with other options, {mine}, than those of the checkpoint, {other}.",
    )


def to_json(spec: Any) -> str:
    """Convert a spec to JSON; tensors and orders among the options are included."""
    return json.dumps(spec, default=_plain, sort_keys=True)


def from_json(text: str) -> Spec:
    """Read a spec from JSON."""
    spec: Spec = json.loads(text, object_hook=_rich)
    spec["encoders"] = [(name, options) for name, options in spec["encoders"]]
    return spec


def to_bytes(spec: Any) -> Tensor:
    """Return the JSON as `(n,)` uint8, which state dicts and safetensors files can hold."""
    return torch.tensor(list(to_json(spec).encode()), dtype=torch.uint8)


def from_bytes(data: Tensor) -> Spec:
    """Read a spec from the bytes of `to_bytes`."""
    return from_json(bytes(data.tolist()).decode())


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"tensor": value.tolist()}
    if isinstance(value, Order):
        return {"order": value.index.tolist(), "name": value.name}
    if isinstance(value, ImageRefinement):
        return dataclasses.asdict(value)  # `refine` takes the options as a dictionary too
    raise LoopeError(f"The option {value!r} cannot be written into a checkpoint; use plain values, tensors or orders.")


def _rich(value: dict[str, Any]) -> Any:
    if value.keys() == {"tensor"}:
        return torch.tensor(value["tensor"], dtype=torch.float64)
    if value.keys() == {"order", "name"}:
        return Order(torch.tensor(value["order"]), value["name"])
    return value
