"""`train`: start, resume or read the run of a folder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from loope.core.errors import LoopeWarning, require
from loope.core.grid import as_size
from loope.lab.data.batches import Fingerprinted, Source
from loope.lab.engine import tracking
from loope.lab.engine.checkpoint import WEIGHTS, Checkpoints, Saved
from loope.lab.engine.distributed import Distributed
from loope.lab.engine.lock import locked
from loope.lab.engine.loop import Loop
from loope.lab.engine.progress import Display, display_class
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.signals import Interrupts
from loope.lab.engine.state import Result, State, check_same
from loope.lab.engine.tasks import Task


def train(
    model: nn.Module,
    task: Task,
    train_source: Source,
    val_source: Source,
    recipe: Recipe,
    folder: str | Path,
    *,
    seed: int = 0,
    name: str = "",
    checkpoint_seconds: float = 60.0,
    checkpoint_steps: int | None = None,
    trackers: Sequence[str] | None = None,
    progress: bool | Path | type[Display] = True,
) -> Result:
    """Train a model into a folder. Calling it again resumes an interrupted run, or returns the finished result.

    Runs in one process or in several started by `accelerate launch` or torchrun: they share each batch, and only the
    main process writes files. Results do not depend on the number of processes, except for dropout, which is drawn in
    each, and batch norm, which sees the share of one. Parameters that require gradients are trained.

    Args:
        model: trained in place; ends with the last weights, in eval mode, on the device of its process.
        task: loss and metrics.
        train_source: training batches, all of `recipe.batch_size`.
        val_source: evaluated completely after each epoch.
        recipe: hyperparameters.
        folder: for checkpoints, logs and the lock; one per run.
        seed: seed of dropout and drop path; data and initial weights are seeded by the caller.
        name: shown, and passed to trackers; the folder's name by default.
        checkpoint_seconds: time between checkpoints within an epoch, longer for models that are slow to write. Every
            epoch ends with a checkpoint.
        checkpoint_steps: also write a checkpoint every `checkpoint_steps` steps of an epoch.
        trackers: "tensorboard", "wandb", "mlflow" or "trackio"; by default TensorBoard, if installed.
        progress: print lines on stderr; or a file that another process reads, or a class of displays.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM, once the step is finished and saved.
        LoopeError: if another process trains into the folder, it holds a run with other settings or data, the loss is
            not finite, or the disk is full; earlier checkpoints are kept.
    """
    folder, steps = Path(folder), train_source.steps // recipe.accumulate
    require(
        steps > 0,
        f"An epoch has {train_source.steps} batches, which do not fill a step of {recipe.accumulate}; use more data, a "
        "smaller batch_size or a smaller accumulate.",
    )
    if checkpoint_steps is not None:
        as_size(checkpoint_steps, "checkpoint_steps")
    checkpoints = Checkpoints(folder / "checkpoints")
    distributed = Distributed(recipe.precision, recipe.accumulate, tracking.chosen(trackers), folder / "trackers")

    def begin() -> tuple[Saved | None, dict[str, Any]]:
        identity = {
            "recipe": asdict(recipe),
            "seed": seed,
            "training samples": train_source.samples,
            "validation samples": val_source.samples,
            "trained parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "data": {"training": _fingerprint(train_source), "validation": _fingerprint(val_source)},
        }
        checkpoints.clean()
        saved = checkpoints.newest()
        if saved is not None:
            check_same(folder, saved, identity, model)
        return saved, identity

    with ExitStack() as stack:
        distributed.on_first(lambda: stack.enter_context(locked(folder)))
        saved, identity = distributed.on_first(begin)
        state = State(**{**saved.state, "identity": identity}) if saved else State(identity)
        images = recipe.batch_size * recipe.accumulate
        if saved and state.epoch == recipe.epochs:
            model.to(distributed.device).eval().load_state_dict(saved.tensors["weights"])
            return _result(distributed, checkpoints, state, steps, images)
        display = display_class(distributed.first and progress)(
            name or folder.name, recipe.epochs, steps, images, task.headline, state
        )
        loop = Loop(
            distributed=distributed,
            model=model,
            task=task,
            train_source=train_source,
            val_source=val_source,
            recipe=recipe,
            seed=seed,
            state=state,
            checkpoints=checkpoints,
            checkpoint_seconds=checkpoint_seconds,
            checkpoint_steps=checkpoint_steps,
            display=display,
            interrupts=stack.enter_context(Interrupts()),
        )
        if saved:
            loop.restore(saved)
        settings = {**asdict(recipe), "seed": seed}
        tracking.begin(distributed.accelerator, name or folder.name, folder / "trackers", settings, loop.done)
        stack.callback(tracking.end, distributed.accelerator)
        stack.callback(display.close)
        loop.run()
        return _result(distributed, checkpoints, state, steps, images)


def _fingerprint(source: Source) -> dict[str, str]:
    return dict(source.fingerprint()) if isinstance(source, Fingerprinted) else {}


def _result(distributed: Distributed, checkpoints: Checkpoints, state: State, steps: int, images: int) -> Result:
    if state.best is None:
        raise AssertionError("a finished run has a best epoch")
    best = checkpoints.folder / state.best["checkpoint"]
    kept = distributed.on_first(lambda: checkpoints.is_sound(best.name))
    if not kept and distributed.first:
        warnings.warn(
            f"The best checkpoint, {best}, is damaged or gone; its scores are known.", LoopeWarning, stacklevel=3
        )
    return Result(
        epochs=state.epoch,
        steps=state.epoch * steps,
        metrics=state.history[-1]["metrics"],
        best=state.best["metrics"],
        best_epoch=state.best["epoch"],
        history=state.history,
        seconds=state.seconds,
        images_per_second=state.epoch * steps * images / state.training,
        weights=checkpoints.folder / state.name / WEIGHTS,
        best_weights=best / WEIGHTS if kept else None,
    )
