"""Score a model on a split, each sample exactly once, on any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from accelerate.utils import convert_to_fp32
from torch import Tensor, nn

from loope.core.errors import one_of, require
from loope.lab.data.batches import Source
from loope.lab.engine.distributed import Distributed
from loope.lab.engine.recipe import PRECISIONS
from loope.lab.engine.tasks import Task


def evaluate(model: nn.Module, task: Task, source: Source, *, precision: str = "float32") -> dict[str, Any]:
    """Score a model. It is moved to the device of this process; its train and eval modes are restored.

    Args:
        model: returns what the task's metrics take.
        task: loss and metrics.
        source: the split, shared by the processes of `accelerate launch` or torchrun.
        precision: "float32", "bfloat16" or "float16", by autocast.

    Returns:
        Scores of `task.metrics()` by name, as floats; larger tensors as nested lists.

    Raises:
        LoopeError: if the source does not yield each sample once, or the task's headline is not among its metrics.
    """
    one_of("precision", precision, PRECISIONS)
    distributed = Distributed(precision)
    model.to(distributed.device)
    modes = [(module, module.training) for module in model.modules()]
    try:
        return scores(distributed, model, task, source)
    finally:
        for module, training in modes:
            module.training = training


def scores(
    distributed: Distributed,
    model: nn.Module,
    task: Task,
    source: Source,
    before: Callable[[int], None] = lambda step: None,
) -> dict[str, Any]:
    """Score a model as `evaluate` does, calling `before` ahead of each step. Leaves the model in eval mode."""
    distributed.same_buffers(model)
    model.eval()
    metrics = task.metrics().to(distributed.device)
    seen = 0
    batches = iter(source.batches(0, 0, distributed.share))
    for step in range(source.steps):  # not `for batch in batches`: a process may have no share of some batches
        before(step)
        batch = next(batches, (torch.empty(0),) * 2)
        inputs, targets = (part.to(distributed.device, non_blocking=True) for part in batch)
        if not len(inputs):
            continue
        seen += len(inputs)
        with torch.inference_mode():
            with distributed.accelerator.autocast():
                output = model(inputs)
            metrics.update(convert_to_fp32(output), targets)
    # A source may skip unreadable images; each process counts those of its share.
    total, bad = distributed.sums(seen, getattr(source, "bad_images", 0))
    require(
        0 < source.samples - bad <= total <= source.samples,
        f"An evaluation must see every sample once; the source has {source.samples:,} and gave {total:,.0f}"
        + (f", {bad:,.0f} of them cannot be read." if bad else "."),
    )
    with torch.inference_mode():
        found = metrics.compute()
    found = found if isinstance(found, Mapping) else {task.headline: found}
    require(
        task.headline in found, f"The task's headline {task.headline!r} is not among its metrics: {', '.join(found)}."
    )
    return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in found.items()}
