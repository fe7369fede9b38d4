"""Where the patches of the current forward pass are, from the patch embedding to the last block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from loope.core.errors import LoopeError
from loope.positions import Positions


class Place:
    """The positions of one branch's patches, one entry for each encoder, since encoders may refine them.

    Set at the patch embedding and read in the blocks. A checkpointed block runs again in the backward pass, when other
    images may have passed since; it is then recognized by the memory of its input.

    Args:
        start: the positions before the first forward pass, for blocks that are called alone.
    """

    def __init__(self, start: Sequence[Positions] = ()) -> None:
        self.start = tuple(start)
        self.positions = self.start
        self.given: Positions | None = None  # by `use_positions`
        self.call: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # of the patch embedding, until `entry`
        self._bias: tuple[tuple[Positions, ...], Tensor] | None = None  # of the current forward pass, for all blocks
        self._inputs: dict[StorageWeakRef, tuple[Positions, ...]] = {}

    @property
    def length(self) -> int:
        """Return the number of patches in a row; 0 before the first forward pass."""
        return self.positions[0].length if self.positions else 0

    def set(self, positions: Sequence[Positions]) -> None:
        """Set the positions of a new batch."""
        self.positions = tuple(positions)
        self._bias = None
        if not torch.compiler.is_compiling():  # compiled code must not depend on what ran before
            self._inputs = {ref: each for ref, each in self._inputs.items() if not ref.expired()}  # type: ignore[no-untyped-call]

    def take(self, index: Tensor) -> None:
        """Keep the patches `index`, `(B, M)` int64, after others were dropped."""
        taken = {id(each): each.taken(index) for each in self.positions}  # most encoders share one
        self.positions = tuple(taken[id(each)] for each in self.positions)

    def enter(self, tokens: Tensor) -> None:
        """Note that a block starts on `tokens`; restore their positions if it is run again for the backward pass."""
        if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
            return
        try:
            ref = StorageWeakRef(tokens.untyped_storage())  # type: ignore[no-untyped-call]
        except (RuntimeError, NotImplementedError):  # tensors without storage, of function transforms
            return
        # As torch.utils.checkpoint does it: -1 outside of a backward pass.
        if torch._C._current_graph_task_id() == -1:
            self._inputs[ref] = self.positions
        else:
            # Blocks after the first of a checkpointed segment have inputs of their own, and keep its positions.
            self.positions = self._inputs.get(ref, self.positions)

    def at(self, tokens: int, prefix: int) -> tuple[Positions, ...]:
        """Return the positions, after a check of the number of tokens, prefix included."""
        if not self.positions or tokens - prefix != self.length:
            expected = f"{prefix} prefix and {self.length} patch tokens" if self.positions else "a patch embedding"
            raise LoopeError(
                f"Expected {expected}, got {tokens} tokens in all; encoders that act in blocks cannot be used where "
                "tokens are added, or dropped by other modules than the adapter's `patch_drop`."
            )
        return self.positions

    def keep(self, positions: tuple[Positions, ...], bias: Tensor | None) -> None:
        """Keep the bias of these positions for the next blocks, or none."""
        # One with gradients belongs to the block that computed it: a checkpointed block computes it again.
        self._bias = None if bias is None or bias.requires_grad else (positions, bias)

    def kept(self, positions: tuple[Positions, ...], q: Tensor) -> Tensor | None:
        """Return the bias that was kept, if it is of these positions and fits the queries, else None."""
        if self._bias is None or self._bias[0] is not positions:
            return None
        bias = self._bias[1]
        return bias if (bias.dtype, bias.device) == (q.dtype, q.device) else None

    def __reduce__(self) -> Any:
        return Place, (self.start,)  # the blocks of a copy have not run yet
