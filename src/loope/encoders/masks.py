"""What tokens may not see, in a dense bias or as FlexAttention's `score_mod`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from loope.core.errors import require
from loope.positions import Positions

# (score, batch, head, query, key) -> score
ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
HIDDEN = float("-inf")


def mask(bias: Tensor, positions: Positions) -> Tensor:
    """Set `bias` `(1 or B, heads, N, N)` to -inf between images of a packed sequence and at padding."""
    visible = positions.visible()
    return bias if visible is None else bias.masked_fill(~visible[:, None], HIDDEN)


def pad_prefix(bias: Tensor, positions: Positions, prefix: int) -> Tensor:
    """Extend `bias` `(1 or B, heads, N, N)` by zeros for prefix tokens, which do not see padding either."""
    if not prefix:
        return bias
    require_unpacked(positions, prefix)
    padded = F.pad(bias, (prefix, 0, prefix, 0))
    if positions.valid is None:
        return padded
    hidden = F.pad(~positions.valid, (prefix, 0))[:, None, None]  # keys, `(1 or B, 1, 1, P + N)`
    queries = torch.arange(padded.shape[-1], device=padded.device)[:, None] < prefix
    return padded.masked_fill(hidden & queries, HIDDEN)


def as_score_mod(
    bias: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], positions: Positions, prefix: int
) -> ScoreMod:
    """Return a `score_mod` that adds a bias to the scores of patches and hides what `mask` and `pad_prefix` hide.

    Args:
        bias: (row of the positions, head, query, key) -> bias; queries and keys are numbers of patches.
        positions: where the patches are.
        prefix: number of tokens before the patches.
    """
    require_unpacked(positions, prefix)
    rows, sequence, valid = positions.rows, _rows(positions.sequence, positions), _rows(positions.valid, positions)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        row = b if rows > 1 else torch.zeros_like(b)
        query, key = ((index - prefix).clamp(min=0) for index in (q_idx, kv_idx))
        added = score + bias(row, h, query, key).to(score.dtype)
        if prefix:
            added = torch.where((q_idx >= prefix) & (kv_idx >= prefix), added, score)
        if sequence is not None:
            added = torch.where(sequence[row, query] == sequence[row, key], added, HIDDEN)
        if valid is not None:
            seen = valid[row, key] | (kv_idx < prefix) | (q_idx == kv_idx)
            added = torch.where(seen, added, HIDDEN)
        return added

    return score_mod


def axes(values: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
    """Return rows and columns of `(1 or B, N, 2)` values, `(B, N)` each, for a `score_mod`: kernels take no views."""
    row, column = (axis.expand(positions.rows, -1).contiguous() for axis in values.unbind(-1))
    return row, column


def require_unpacked(positions: Positions, prefix: int) -> None:
    """Check that no prefix tokens stand before a packed sequence: they would belong to no image, and see all.

    Raises:
        LoopeError: if so.
    """
    require(
        positions.sequence is None or not prefix,
        f"A packed sequence cannot have class or register tokens before the patches, since they would see all of its "
        f"{len(positions.grids)} images; got {prefix} prefix tokens. Use a model without them, or `Positions.batch`.",
    )


def _rows(values: Tensor | None, positions: Positions) -> Tensor | None:
    return None if values is None else values.expand(positions.rows, -1)
