"""The processes of a run, one or many: accelerate, and what they must decide together."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin, broadcast_object_list
from torch import Tensor, nn

from loope.core.errors import LoopeError, require

T = TypeVar("T")
MIXED = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Distributed:
    """The processes that run this program together, as `accelerate launch` or torchrun started them.

    Args:
        precision: "float32", "bfloat16" or "float16".
        accumulate: batches whose gradients make one step.
        trackers: names of accelerate's trackers.
        folder: where trackers write.

    Attributes:
        accelerator: accelerate's own object, for this precision.
        share: this process's number, and how many there are.
        wide: the widest floating-point type of the device.

    Raises:
        LoopeError: if accelerate is missing, or the precision is none of this device.
    """

    def __init__(self, precision: str, accumulate: int = 1, trackers: Sequence[str] = (), folder: Path | None = None):
        self.accelerator = _accelerator(precision, accumulate, list(trackers) or None, folder)
        self.share: tuple[int, int] = (self.accelerator.process_index, self.accelerator.num_processes)
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64  # Apple's GPUs have no float64

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return torch.device(self.accelerator.device)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks for all."""
        return self.share[0] == 0

    def on_first(self, work: Callable[[], T]) -> T:
        """Let the first process work; all get its answer, or its `LoopeError`."""
        if self.share[1] == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = work()
            except LoopeError as error:
                outcome[1] = error
        broadcast_object_list(outcome)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]  # type: ignore[no-any-return]

    def sums(self, *numbers: Tensor | float) -> list[float]:
        """Each number summed over the processes: one exchange, the same answer for all."""
        values = torch.stack([torch.as_tensor(number, dtype=self.wide, device=self.device) for number in numbers])
        if self.share[1] > 1:
            torch.distributed.all_reduce(values)
        return values.tolist()

    def same_buffers(self, model: nn.Module) -> None:
        """Give all processes the first one's buffers: batch norms see different shares of a batch."""
        if self.share[1] > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)


def _accelerator(precision: str, accumulate: int, trackers: list[str] | None, folder: Path | None) -> Accelerator:
    mixed = MIXED[precision]
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != mixed:
        AcceleratorState._reset_state()  # it is one for the whole process, which may train with several precisions
    alone = not torch.distributed.is_initialized()
    # Without a GPU accelerate must be told, or processes that torchrun started would not find each other.
    cpu = not torch.accelerator.is_available()
    plugin = GradientAccumulationPlugin(num_steps=accumulate, sync_with_dataloader=False)
    try:
        accelerator = Accelerator(
            mixed_precision=mixed, cpu=cpu, gradient_accumulation_plugin=plugin, log_with=trackers, project_dir=folder
        )
    except ValueError as error:
        raise LoopeError(f"{precision} cannot be used here: {error}; use precision='float32'.") from None
    require(
        precision != "float16" or accelerator.scaler is not None,
        f"float16 needs a GPU, this process computes on {accelerator.device.type}; use precision='bfloat16'.",
    )
    if alone and torch.distributed.is_initialized():
        atexit.register(_leave)
    return accelerator


def _leave() -> None:
    """The group's threads must not outlive the interpreter."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
