"""`train`: the run of a folder, from its beginning, from where it stopped, or just its result."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch import nn

from loope.core.batches import Fingerprinted, Source
from loope.core.errors import LoopeWarning, require
from loope.core.grid import as_size
from loope.engine import tracking
from loope.engine.checkpoint import WEIGHTS, Checkpoints, Saved
from loope.engine.interrupt import Interrupts
from loope.engine.lock import locked
from loope.engine.loop import Loop
from loope.engine.progress import display_class
from loope.engine.recipe import Recipe
from loope.engine.state import Result, State, check_same
from loope.engine.tasks import Task
from loope.engine.team import Team


def train(
    model: nn.Module,
    task: Task,
    train_source: Source,
    valid_source: Source,
    recipe: Recipe,
    folder: str | Path,
    *,
    seed: int = 0,
    name: str = "",
    checkpoint_seconds: float = 60.0,
    checkpoint_steps: int | None = None,
    trackers: Sequence[str] | None = None,
    progress: bool | Path = True,
) -> Result:
    """Train a model into a folder. Called again, it goes on where it stopped, however it stopped; finished, it is done.

    One process on a CPU, or many on several machines, as `accelerate launch` or torchrun starts them: they share each
    batch, and only the first one touches the folder. Results do not depend on their number, but for dropout, which is
    drawn anew in each, and batch norms, which see the share of one. What takes gradients is trained, the rest stays.

    Args:
        model: trained in place; at the end it has the last weights, in eval mode, on the device of its process.
        task: what a batch means.
        train_source: batches to learn from, all of `recipe.batch_size`.
        valid_source: what the model is scored on after each epoch, all of it.
        recipe: how to train.
        folder: for checkpoints, curves and the lock; one for each run.
        seed: of dropout and the like; the data and the first weights have seeds of their own.
        name: shown, and given to trackers; the folder's by default.
        checkpoint_seconds: time between checkpoints within an epoch; more for models that take long to write. Each
            epoch ends with one.
        checkpoint_steps: a checkpoint every so many steps of an epoch as well.
        trackers: "tensorboard", "wandb", "mlflow", "trackio"; TensorBoard by default, where it is installed.
        progress: whether to show bars, or lines where there is no terminal; or a file to tell another process by.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM: the step is finished, the state saved.
        LoopeError: if another process trains into the folder, it holds a run with other settings or other data, the
            loss is not finite, or the disk is full; checkpoints written before stay as they are.
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
    team = Team(recipe.precision, recipe.accumulate, tracking.chosen(trackers), folder / "trackers")

    def begin() -> tuple[Saved | None, dict[str, Any]]:
        identity = {
            "recipe": recipe.to_json(),
            "seed": seed,
            "training samples": train_source.samples,
            "validation samples": valid_source.samples,
            "trained parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "data": {"training": _fingerprint(train_source), "validation": _fingerprint(valid_source)},
        }
        checkpoints.clean()
        saved = checkpoints.newest()
        if saved is not None:
            check_same(folder, saved, identity, model)
        return saved, identity

    with ExitStack() as stack:
        team.on_first(lambda: stack.enter_context(locked(folder)))
        saved, identity = team.on_first(begin)
        state = State(**{**saved.state, "identity": identity}) if saved else State(identity)
        images = recipe.batch_size * recipe.accumulate
        if saved and state.epoch == recipe.epochs:
            model.to(team.device).eval().load_state_dict(saved.tensors["weights"])
            return _result(team, checkpoints, state, steps, images)
        display = display_class(team.first and progress)(
            name or folder.name, recipe.epochs, steps, images, task.headline, state
        )
        loop = Loop(
            team=team,
            model=model,
            task=task,
            train_source=train_source,
            valid_source=valid_source,
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
        settings = {**recipe.to_json(), "seed": seed}
        tracking.begin(team.accelerator, name or folder.name, folder / "trackers", settings, loop.done)
        stack.callback(tracking.end, team.accelerator)
        stack.enter_context(display)
        loop.run()
        return _result(team, checkpoints, state, steps, images)


def _fingerprint(source: Source) -> dict[str, str]:
    return dict(source.fingerprint()) if isinstance(source, Fingerprinted) else {}


def _result(team: Team, checkpoints: Checkpoints, state: State, steps: int, images: int) -> Result:
    if state.best is None:
        raise AssertionError("a finished run has a best epoch")
    best = checkpoints.folder / state.best["checkpoint"]
    kept = team.on_first(lambda: checkpoints.is_sound(best.name))
    if not kept and team.first:
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
