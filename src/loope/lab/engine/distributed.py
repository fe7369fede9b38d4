"""Processes of a run, started by accelerate or torchrun, and their shared decisions."""

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
        accumulate: batches accumulated into one step.
        trackers: names of accelerate trackers.
        folder: output folder of the trackers.

    Attributes:
        accelerator: the `Accelerator` for this precision.
        share: (rank, number of processes).
        wide: the widest floating-point dtype of the device.

    Raises:
        LoopeError: if the device does not support the precision.
    """

    def __init__(self, precision: str, accumulate: int = 1, trackers: Sequence[str] = (), folder: Path | None = None):
        self.accelerator = _accelerator(precision, accumulate, list(trackers) or None, folder)
        self.share: tuple[int, int] = (self.accelerator.process_index, self.accelerator.num_processes)
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64  # Apple's GPUs have no float64

    @property
    def device(self) -> torch.device:
        """Device of this process."""
        return torch.device(self.accelerator.device)

    @property
    def first(self) -> bool:
        """Whether this is the main process, which writes files."""
        return self.share[0] == 0

    def on_first(self, work: Callable[[], T]) -> T:
        """Call `work` on the main process; all processes get its result, or its `LoopeError`."""
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
        """Sum each number over the processes, in one exchange."""
        values = torch.stack([torch.as_tensor(number, dtype=self.wide, device=self.device) for number in numbers])
        if self.share[1] > 1:
            torch.distributed.all_reduce(values)
        return values.tolist()

    def same_buffers(self, model: nn.Module) -> None:
        """Broadcast the main process's buffers: batch norms see different shares of a batch."""
        if self.share[1] > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)


def _accelerator(precision: str, accumulate: int, trackers: list[str] | None, folder: Path | None) -> Accelerator:
    mixed = MIXED[precision]
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != mixed:
        AcceleratorState._reset_state()  # it is global, and a process may train with several precisions
    alone = not torch.distributed.is_initialized()
    # Without a GPU, accelerate needs `cpu=True` to connect processes started by torchrun.
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
    """Destroy the process group: its threads must not outlive the interpreter."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
