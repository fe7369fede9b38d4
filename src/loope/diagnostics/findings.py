"""What an audit reports."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

SAME = 1e-3  # relative difference of tokens below which they are the same


class Finding(NamedTuple):
    """Something wrong with positions in a model.

    Attributes:
        seen: what was seen.
        effect: what it would do to a user.
        where: the part of the model.
        check: the check that failed.
    """

    seen: str
    effect: str
    where: str
    check: str = ""


def apart(one: Tensor, other: Tensor) -> float:
    """Return the root mean square difference over that of the deviation from the mean."""
    spread = (other - other.mean()).square().mean().sqrt().clamp(min=1e-12)
    return float((one - other).square().mean().sqrt() / spread)
