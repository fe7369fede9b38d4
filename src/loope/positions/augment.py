"""Random moves of positions while training, so that a model does not overfit to one grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from loope.core.errors import require, shown, unknown
from loope.positions.positions import Positions

Augment: TypeAlias = Mapping[str, float] | None
MOVES = ("shift", "jitter", "rescale")


@dataclass(frozen=True)
class Augmentation:
    """Moves positions at random, all images of a batch alike, by numbers from torch's generator.

    Args:
        shift: rows and columns move by up to this many halves of the image, each by a number of its own.
        jitter: rows and columns are multiplied from the image's centre by a factor between 1 / jitter and jitter,
            uniform in its logarithm, each by one of its own.
        rescale: both are multiplied by one such factor between 1 / rescale and rescale.
        fuzzy: each patch moves by up to this many cells along each axis (`Positions.jitter`).
    """

    shift: float = 0.0
    jitter: float = 1.0
    rescale: float = 1.0
    fuzzy: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("shift", 0), ("jitter", 1), ("rescale", 1), ("fuzzy", 0)):
            value = getattr(self, name)
            require(
                isinstance(value, int | float) and not isinstance(value, bool) and least <= value < math.inf,
                f"`{name}` must be a number from {least} up, got {shown(value)}.",
            )

    def __call__(self, positions: Positions, points: Tensor, sizes: Tensor) -> Positions:
        """Return positions moved from `points` `(1 or B, N, 2)` in grids of `sizes`, which is broadcastable."""
        moved = positions._replace(moved=points)
        if self.fuzzy:
            moved = moved.jitter(amount=self.fuzzy)
        if (self.shift, self.jitter, self.rescale) == (0, 1, 1):
            return moved
        # As DINOv3 does it, in its order: seeds give the numbers that transformers and timm draw.
        unit = 2 * (moved.coordinates + 0.5) / sizes - 1
        if self.shift:
            unit = unit + self._draw(2, self.shift, points)
        for count, factor in ((2, self.jitter), (1, self.rescale)):
            if factor > 1:
                unit = unit * self._draw(count, math.log(factor), points).exp()
        return moved._replace(moved=(unit + 1) * sizes / 2 - 0.5)

    @staticmethod
    def _draw(count: int, reach: float, points: Tensor) -> Tensor:
        return torch.empty(count, dtype=torch.float32, device=points.device).uniform_(-reach, reach)


def as_augmentation(augment: Augment = None, fuzzy: float = 0.0) -> Augmentation | None:
    """Read the options `augment`, a dictionary of shift, jitter and rescale, and `fuzzy`; None if nothing moves.

    Raises:
        LoopeError: for anything else, or an unknown move.
    """
    require(
        augment is None or isinstance(augment, Mapping),
        f"`augment` must be None or a dictionary such as {{'rescale': 2.0}}, got {shown(augment)}.",
    )
    moves: dict[str, Any] = dict(augment or {})
    for name in moves:
        if name not in MOVES:
            raise unknown("move of `augment`:", name, MOVES)
    made = Augmentation(**moves, fuzzy=fuzzy)
    return None if made == Augmentation() else made
