"""Learned bases of rotary encoders: in which planes the channels turn, for each block and head.

Queries and keys are multiplied by the same matrix before they are rotated, so scores still depend on offsets alone. All
bases start as the identity, where the encoder is the plain one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, one_of
from loope.core.grid import as_size

COMROPE_BLOCK = 8  # channels


def cayley(values: Tensor) -> Tensor:
    """Return the rotations (I + S)^-1 (I - S) of the skew-symmetric S = P - P', for `(..., d, d)` values P."""
    skew = values - values.mT
    identity = torch.eye(values.shape[-1], dtype=values.dtype, device=values.device)
    rotations: Tensor = torch.linalg.solve(identity + skew, identity - skew)
    return rotations


class Basis(nn.Module, ABC):
    """Base class of learned bases.

    Args:
        depth: blocks of the model.
        heads: attention heads.
        width: channels d of a head.
        layout: which channels are a pair, as for `Rotary`.
    """

    # Whether channels are turned back into the model's own basis, which an orthogonal matrix can do by its transpose.
    returns: ClassVar[bool] = True
    # Whether angles are multiplied by learned `factors`.
    learns_angles: ClassVar[bool] = False

    def __init__(self, depth: int, heads: int, width: int, layout: str):
        super().__init__()
        self.depth = depth
        self.width = width
        self.layout = layout
        self._learn(depth, heads)

    @abstractmethod
    def _learn(self, depth: int, heads: int) -> None:
        """Create the parameters."""

    @abstractmethod
    def matrix(self, layer: int, strength: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return A of each head, `(heads, d, d)`; the identity at strength 0, and None stands for strength 1."""

    def factors(self, layer: int) -> Tensor:
        """Return what the angles are multiplied by, `(heads, 1, d/2)`, if this basis learns them."""
        raise NotImplementedError

    def weights(self, layer: int, dtype: torch.dtype) -> Tensor | None:
        """Return how much each channel pair counts in the scores of equal vectors, `(heads, d/2)`, if not alike."""
        return None


def _at(values: Tensor, layer: int, strength: Tensor | None, dtype: torch.dtype) -> Tensor:
    chosen = values[layer].to(dtype)
    return chosen if strength is None else chosen * strength


class Orthogonal(Basis):
    """A rotation A' R A with an orthogonal A by Cayley's formula (Schenck et al., 2025, STRING)."""

    def _learn(self, depth: int, heads: int) -> None:
        self.skew = nn.Parameter(torch.zeros(depth, heads, self.width, self.width))

    def matrix(self, layer: int, strength: Tensor | None, dtype: torch.dtype) -> Tensor:
        return cayley(_at(self.skew, layer, strength, dtype))


class Svd(Basis):
    """A rotation R A with any A, by its singular values and vectors (Li et al., 2025, HARoPE).

    Lengths may change. Prefix tokens, which are not rotated, do not see A either.
    """

    returns = False

    def _learn(self, depth: int, heads: int) -> None:
        self.left = nn.Parameter(torch.zeros(depth, heads, self.width, self.width))
        self.right = nn.Parameter(torch.zeros(depth, heads, self.width, self.width))
        self.log_values = nn.Parameter(torch.zeros(depth, heads, self.width))

    def matrix(self, layer: int, strength: Tensor | None, dtype: torch.dtype) -> Tensor:
        left, right, values = (_at(each, layer, strength, dtype) for each in (self.left, self.right, self.log_values))
        return cayley(left) * values.exp()[:, None] @ cayley(right).mT

    def weights(self, layer: int, dtype: torch.dtype) -> Tensor:
        lengths = self.matrix(layer, None, dtype).square().sum(-1)  # of the rows of A, one for each channel
        if self.layout == "interleaved":
            return lengths.view(len(lengths), -1, 2).mean(-1)
        return lengths.view(len(lengths), 2, -1).mean(-2)


class Commuting(Basis):
    """Commuting generators in blocks of 8 channels (Yu et al., 2025, ComRoPE).

    Skew-symmetric matrices that commute are plane rotations in one common basis. So each block learns its basis, by
    Cayley's formula, and each of its planes its frequency. With `rope_axial` the blocks turn with the row or with
    the column, as in ComRoPE-AP.
    """

    learns_angles = True

    def _learn(self, depth: int, heads: int) -> None:
        block = math.gcd(self.width, COMROPE_BLOCK)
        self.skew = nn.Parameter(torch.zeros(depth, heads, self.width // block, block, block))
        self.frequencies = nn.Parameter(torch.ones(depth, heads, 1, self.width // 2))

    def matrix(self, layer: int, strength: Tensor | None, dtype: torch.dtype) -> Tensor:
        blocks = cayley(_at(self.skew, layer, strength, dtype))  # (heads, d/b, b, b)
        diagonal = torch.eye(blocks.shape[1], dtype=dtype, device=blocks.device)[:, None, :, None]
        full = (blocks[:, :, :, None] * diagonal).flatten(3).flatten(1, 2)
        if self.layout == "interleaved":
            return full
        order = torch.arange(self.width, device=blocks.device).view(-1, 2).T.flatten()  # firsts of the pairs, seconds
        return full[:, order][:, :, order]

    def factors(self, layer: int) -> Tensor:
        return self.frequencies[layer]


BASES: dict[str, type[Basis]] = {"orthogonal": Orthogonal, "svd": Svd, "commuting": Commuting}


def make_basis(basis: str | None, depth: int | None, heads: int, width: int, layout: str) -> Basis | None:
    """Return the basis of this name; None for None.

    Raises:
        LoopeError: for an unknown name, or without `depth`.
    """
    if basis is None:
        return None
    one_of("basis", basis, BASES)
    if depth is None:
        raise LoopeError(f"`basis={basis!r}` has parameters for each block and needs `depth`; pass depth=...")
    return BASES[basis](as_size(depth, "depth"), heads, width, layout)
