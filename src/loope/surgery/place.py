"""Where the patches of the current forward pass are, from the patch embedding to the last block."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.positions import Positions


class Shared:
    """What threads that run the same model share.

    Args:
        start: the positions before the first forward pass, for blocks that are called alone.
    """

    def __init__(self, start: Sequence[Positions]) -> None:
        self.start = tuple(start)
        self.latest = self.start  # of any thread
        # Of the inputs of blocks, and whether gradients were enabled. Backward passes may have a thread of their own.
        self.inputs: dict[StorageWeakRef, tuple[tuple[Positions, ...], bool]] = {}


class Place(threading.local):
    """The positions of one branch's patches, one entry for each encoder, since encoders may refine them.

    Set at the patch embedding and read in the blocks. A checkpointed block runs again in the backward pass, when other
    images may have passed since; it is then recognized by the memory of its input. Threads may run a model at the same
    time: each has its own attributes, for which Python calls the constructor again.

    Args:
        shared: what all threads have in common.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._positions: tuple[Positions, ...] = ()
        self.given: Positions | None = None  # by `use_positions`
        self.call: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # of the patch embedding, until `entry`
        self._bias: tuple[tuple[Positions, ...], Tensor] | None = None  # of the current forward pass, for all blocks
        self._windows: dict[Grid, tuple[Positions, ...]] = {}

    @classmethod
    def of(cls, grid: Grid, encoders: int) -> Place:
        """Return the place of a branch that no image has passed yet."""
        return cls(Shared([Positions((grid,))] * encoders))

    @property
    def positions(self) -> tuple[Positions, ...]:
        """Return the positions of this thread's batch; of the latest batch in a thread that has had none."""
        return self._positions or self._shared.latest

    @property
    def length(self) -> int:
        """Return the number of patches in a row; 0 before the first forward pass."""
        return self.positions[0].length if self.positions else 0

    def set(self, positions: Sequence[Positions]) -> None:
        """Set the positions of a new batch."""
        self._positions = self._shared.latest = tuple(positions)
        self._bias = None
        if not torch.compiler.is_compiling():  # compiled code must not depend on what ran before
            for ref in list(self._shared.inputs):
                if ref.expired():  # type: ignore[no-untyped-call]
                    self._shared.inputs.pop(ref, None)

    def take(self, index: Tensor) -> None:
        """Keep the patches `index`, `(B, M)` int64, after others were dropped."""
        taken = {id(each): each.taken(index) for each in self.positions}  # most encoders share one
        self._positions = self._shared.latest = tuple(taken[id(each)] for each in self.positions)

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
            self._shared.inputs[ref] = self.positions, torch.is_grad_enabled()
        elif ref in self._shared.inputs:  # blocks after the first of a checkpointed segment keep its positions
            self._positions, with_gradients = self._shared.inputs[ref]
            require(
                with_gradients
                or not any(each.moved is not None and each.moved.requires_grad for each in self._positions),
                "Reentrant checkpointing has no gradients for positions that an image refines; use the other kind: "
                "torch.utils.checkpoint.checkpoint(..., use_reentrant=False).",
            )

    def at(self, tokens: int, others: int) -> tuple[Positions, ...]:
        """Return the positions, after a check of the number of tokens, of which `others` are no patches."""
        if not self.positions or tokens - others != self.length:
            expected = f"{others} prefix and {self.length} patch tokens" if self.positions else "a patch embedding"
            raise LoopeError(
                f"Expected {expected}, got {tokens} tokens in all; encoders that act in blocks cannot be used where "
                "tokens are added, or dropped by other modules than the adapter's `patch_drop`."
            )
        return self.positions

    def within(self, window: Grid) -> tuple[Positions, ...]:
        """Return the positions in each window of a whole grid."""
        require(
            all(each.whole is not None for each in self.positions),
            "This model attends in windows of a whole grid; positions that were given, moved or dropped have none.",
        )
        if window not in self._windows:
            self._windows[window] = tuple(Positions((window,)) for _ in self.positions)
        return self._windows[window]

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
        return Place, (Shared(self._shared.start),)  # the blocks of a copy have not run yet
