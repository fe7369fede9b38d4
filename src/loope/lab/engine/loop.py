"""The training loop. A run killed at any moment resumes to the same weights, bit for bit (CPU, same threads).

Batches and the learning rate are functions of (epoch, step), all generators are reseeded for every batch, and a
checkpoint holds the rest: weights, buffers, optimizer state and partial sums.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError
from loope.lab.data.batches import Batch, Source
from loope.lab.engine.checkpoint import Checkpoints, Saved
from loope.lab.engine.distributed import Distributed
from loope.lab.engine.evaluation import scores
from loope.lab.engine.optimizer import create_optimizer, restore, set_learning_rate, state_tensors
from loope.lab.engine.progress import Display
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.schedule import learning_rate
from loope.lab.engine.signals import Interrupted, Interrupts
from loope.lab.engine.state import State
from loope.lab.engine.tasks import Scheduled, Task

LOOK_ON_GPU = 10  # steps between synchronisations: reading a number from a GPU waits for it
LOG_EVERY = 50  # steps between logged losses
WRITING = 1 / 20  # largest share of time spent writing checkpoints within epochs
EVALUATION = -1  # used as rank, so that evaluations and steps get different seeds


class Objective(nn.Module):
    """Wrap model and loss as a module, so that accelerate wraps this module instead of the model."""

    def __init__(self, model: nn.Module, task: Task):
        super().__init__()
        self.model = model
        self.task = task

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, a scalar."""
        return self.task.loss(self.model, inputs, targets)


@dataclass
class Loop:
    """Train from the current state to the end; the fields are documented in `train`."""

    distributed: Distributed
    model: nn.Module
    task: Task
    train_source: Source
    val_source: Source
    recipe: Recipe
    seed: int
    state: State
    checkpoints: Checkpoints
    checkpoint_seconds: float
    checkpoint_steps: int | None
    display: Display
    interrupts: Interrupts
    steps: int = field(init=False)

    def __post_init__(self) -> None:
        self.steps = self.train_source.steps // self.recipe.accumulate
        self._look_every = 1 if self.distributed.device.type == "cpu" else LOOK_ON_GPU
        self._optimizer = create_optimizer(self.model, self.recipe)
        prepare: Any = self.distributed.accelerator.prepare
        self._objective, self._stepper = prepare(Objective(self.model, self.task), self._optimizer)
        self._mark = self._written = time.perf_counter()
        self._write_took = 0.0
        self._saved = ""

    @property
    def done(self) -> int:
        """Total number of optimizer steps taken."""
        return self.state.epoch * self.steps + self.state.step

    def restore(self, saved: Saved) -> None:
        """Restore weights, optimizer state and gradient scaler."""
        self.model.load_state_dict(saved.tensors["weights"])
        restore(self._optimizer, self.model, saved.tensors["optimizer"])
        if self.state.scaler is not None:
            self.distributed.accelerator.scaler.load_state_dict(self.state.scaler)
        self._saved = saved.name

    def run(self) -> None:
        """Run the remaining epochs.

        Raises:
            Interrupted: after saving, if a signal asked to stop.
            LoopeError: if the loss is not finite, a checkpoint cannot be written, or a source
                breaks its contract.
        """
        while self.state.epoch < self.recipe.epochs:
            if self.state.step < self.steps:
                self._train()
            self._evaluate()

    def _train(self) -> None:
        """Run the remaining steps of the epoch."""
        state, recipe, processes = self.state, self.recipe, self.distributed.share[1]
        batches = iter(self.train_source.batches(state.epoch, state.step * recipe.accumulate, self.distributed.share))
        self._objective.train()
        unseen: list[Tensor] = []  # losses of the steps since the last synchronisation
        while state.step < self.steps:
            set_learning_rate(self._optimizer, learning_rate(recipe, self.done, self.steps))
            if isinstance(self.task, Scheduled):
                self.task.before_step(self.done, recipe.epochs * self.steps)
            unseen.append(self._gradients(batches) / processes)
            look, stop, due = self._is_look(), 0.0, 0.0
            if look:  # before the step: on a CPU, an infinite loss never reaches the weights
                *losses, stop, due = self.distributed.sums(*unseen, self.interrupts.asked, self._is_due())
                for step, each in enumerate(losses, self.done + 2 - len(losses)):
                    self._check(math.isfinite(each), f"The loss is {each}", step)
                state.loss += sum(losses)
                unseen.clear()
            if recipe.clip is not None:
                self.distributed.accelerator.clip_grad_norm_(self.model.parameters(), recipe.clip)
            self._stepper.step()
            self._stepper.zero_grad()
            state.step += 1
            if look:
                self._tick(training=True)
                self.display.show(state)
                if self.done % LOG_EVERY == 0:
                    self.distributed.accelerator.log({"step/loss": losses[-1]}, step=self.done)
                if stop or due:
                    self._save()
                if stop:
                    self._stop()

    def _gradients(self, batches: Iterator[Batch]) -> Tensor:
        """Gradients of one optimizer step; the mean loss of its batches, on this process."""
        accelerator, accumulate = self.distributed.accelerator, self.recipe.accumulate
        rank, processes = self.distributed.share
        losses = []
        for number in range(self.done * accumulate, (self.done + 1) * accumulate):
            batch = next(batches, None)
            if batch is None or len(batch[0]) * processes != self.recipe.batch_size:
                came = "the end" if batch is None else f"{len(batch[0])} samples"
                raise LoopeError(
                    f"Each batch of the training source must have a share of {self.recipe.batch_size} / {processes} "
                    f"samples for each process; for {self._place(self.done + 1)} came {came}. "
                    "Give source and recipe the same batch size, a multiple of the number of processes."
                )
            inputs, targets = (part.to(self.distributed.device, non_blocking=True) for part in batch)
            reseed(self.distributed.device, self.seed, number, rank)
            with accelerator.accumulate(self._objective):
                loss = self._objective(inputs, targets)
                accelerator.backward(loss)
            losses.append(loss.detach())
        return torch.stack(losses).to(self.distributed.wide).mean()

    def _evaluate(self) -> None:
        """Finish the epoch: evaluate, record, save."""
        state = self.state
        reseed(self.distributed.device, self.seed, state.epoch, EVALUATION)

        def stop_if_asked(step: int) -> None:
            if step % self._look_every == 0 and any(self.distributed.sums(self.interrupts.asked)):
                self._save()
                self._stop()

        found = scores(self.distributed, self.model, self.task, self.val_source, stop_if_asked)
        self._tick()
        lr = learning_rate(self.recipe, self.done - 1, self.steps)
        state.end_epoch(lr, self.steps, found, self.task.headline)
        self.display.show(state)
        curves = {name: value for name, value in found.items() if isinstance(value, int | float)}
        self.distributed.accelerator.log({"loss": state.history[-1]["loss"], "lr": lr, **curves}, step=self.done)
        self._save()

    def _is_look(self) -> bool:
        """Return whether the current step synchronises; independent of where the run was resumed."""
        step = self.state.step + 1
        asked = self.checkpoint_steps is not None and step % self.checkpoint_steps == 0
        return step % self._look_every == 0 or step == self.steps or asked

    def _is_due(self) -> bool:
        """Return whether to save after the current step; the main process decides."""
        step = self.state.step + 1
        if not self.distributed.first or step == self.steps:
            return False  # the end of an epoch always saves
        if self.checkpoint_steps is not None and step % self.checkpoint_steps == 0:
            return True
        pause = max(self.checkpoint_seconds, self._write_took / WRITING)
        return time.perf_counter() - self._written > pause

    def _save(self) -> None:
        """Write a checkpoint of the current state, unless it exists."""
        if self._saved == self.state.name:
            return
        finite = torch.stack([parameter.isfinite().all() for parameter in self.model.parameters()]).all()
        self._check(bool(finite), "The weights are NaN or infinite", self.done)
        self._tick()
        scaler = self.distributed.accelerator.scaler
        self.state.scaler = None if scaler is None else scaler.state_dict()
        self.distributed.on_first(self._write)
        self._saved, self._written = self.state.name, time.perf_counter()
        self._write_took = self._written - self._mark
        self._mark = self._written  # the time spent writing is not counted: the state is already on disk

    def _write(self) -> None:
        tensors = {"weights": self.model.state_dict(), "optimizer": state_tensors(self._optimizer, self.model)}
        self.checkpoints.write(self.state.name, asdict(self.state), tensors)

    def _check(self, good: bool, what: str, step: int) -> None:
        if not good:
            kept = (
                f"{self.checkpoints.folder / self._saved} has the last good state" if self._saved else "none is saved"
            )
            raise LoopeError(
                f"{what} at {self._place(step)}; training has stopped, and {kept}. Try a lower lr, a longer warmup, "
                "clip=1.0 or precision='float32', in another folder."
            )

    def _stop(self) -> None:
        raise Interrupted(
            f"Stopped after {self._place(self.done)}, saved as {self.checkpoints.folder / self._saved}; run the same "
            "command again to go on."
        )

    def _place(self, step: int) -> str:
        """Describe a step, counted from 1 over the whole run."""
        return f"step {(step - 1) % self.steps + 1} of epoch {(step - 1) // self.steps + 1}"

    def _tick(self, training: bool = False) -> None:
        """Add the time since the last call."""
        now = time.perf_counter()
        self.state.seconds += now - self._mark
        self.state.training += now - self._mark if training else 0.0
        self._mark = now


def reseed(device: torch.device, *place: int) -> None:
    """Seed the generators of Python, NumPy and torch, including that of `device`, from a position in the run.

    Takes microseconds. Not `torch.manual_seed`, which queues a call, with its stack, for every unused GPU backend.
    """
    digest = hashlib.blake2b(repr(place).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "little")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
