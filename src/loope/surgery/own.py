"""`attach(..., init="own")`: another encoder starts from what the model's own encoding does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.encoders import PositionalEncoder
from loope.encoders.base import encoder_class
from loope.encoders.resample import resample
from loope.surgery.adapters.branch import Branch

Chosen = list[tuple[str, dict[str, Any]]]


class Moved(NamedTuple):
    """How far a model's output moved on a batch.

    Attributes:
        relative: root mean square of the change, over that of the output.
        agreement: share of the images with the same largest logit.
    """

    relative: float
    agreement: float


def own_start(branches: Sequence[Branch], chosen: Chosen) -> tuple[Chosen, bool]:
    """Return the encoders with the options that let them imitate the model's own table, and whether they can.

    Raises:
        LoopeError: if there are several encoders, or nothing of the model's own to start from.
    """
    require(len(chosen) == 1, "`init='own'` starts one encoder from the model's own; attach one at a time.")
    name, options = chosen[0]
    cls = encoder_class(name)
    own = [slot.value is not None for branch in branches for slot in branch.slots]
    require(
        any(own),
        "`init='own'` starts from the model's own position encoding, and this model has none; leave init out.",
    )
    tables = all(_has_table(branch) for branch in branches)
    require(
        not tables or all(bool(own_table(branch).any()) for branch in branches),
        "`init='own'` starts from the model's own position table, which is all zeros here; load pretrained weights "
        "first, or leave init out.",
    )
    fitted = cls.hooks() == ("embed",) and cls.imitates and tables
    if not fitted and "embed" in cls.hooks():
        return chosen, False
    return [(name, {**cls.own_options(options), **options})], fitted


def _has_table(branch: Branch) -> bool:
    """Return whether the branch's own encoding is a table and nothing else."""
    return (
        branch.table is not None
        and branch.table.value is not None
        and not any(slot.value is not None for slot in (*branch.axis_tables, *branch.own))
    )


def own_table(branch: Branch) -> Tensor:
    """Return the model's own vectors of the patches, `(N, D)`, on the grid of the branch."""
    require(branch.table is not None, "This model has no position table of its own.")
    table: Tensor = branch.table.value  # type: ignore[union-attr]
    flat, grid = table.detach().reshape(-1, branch.dim), branch.table_grid or branch.grid  # some are (1, h, w, D)
    return resample(flat[branch.table_prefix :][: grid.size], grid, branch.grid)


def fit_own_table(branch: Branch, encoder: PositionalEncoder) -> float:
    """Fit an encoder to the model's own table, and return the share of it that is explained."""
    table = own_table(branch)
    require(bool(table.isfinite().all()), "The model's own position table has NaN or infinite values.")
    return encoder.fit(table)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into eval mode for a while; each module has its own mode again afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def output_of(model: nn.Module, images: Tensor) -> Tensor:
    """Return the model's output on a batch in eval mode: logits, or the first of several outputs."""
    try:
        with evaluating(model):
            made = model(images)
    except LoopeError:
        raise
    except Exception as error:
        raise LoopeError(f"The model cannot take these images: {type(error).__name__}: {str(error)[:300]}") from error
    return first_output(made).float()


def first_output(made: Any) -> Tensor:
    """Return the logits of a model's output, or the first tensor of it."""
    while not isinstance(made, Tensor):
        made = made.logits if hasattr(made, "logits") else made[0]
    return made


def compare_outputs(before: Tensor, after: Tensor) -> Moved:
    """Return how far an output moved."""
    same = before.flatten(1).argmax(-1) == after.flatten(1).argmax(-1)
    return Moved(float((after - before).norm() / before.norm()), float(same.float().mean()))
