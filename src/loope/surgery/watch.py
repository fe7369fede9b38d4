"""Collect the tokens after each block of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from loope.surgery.adapters.base import adapter_for
from loope.surgery.adapters.branch import Branch
from loope.surgery.hooks import tokens_of


class _EnoughError(Exception):
    """Ends a forward pass."""


@contextmanager
def watched(model: nn.Module, most: int | None = None) -> Iterator[list[Tensor]]:
    """Collect the tokens after each block of every branch in one forward pass, which ends after `most` blocks."""
    seen: list[Tensor] = []

    def watch(branch: Branch, module: nn.Module, args: Any, made: Any) -> None:
        seen.append(tokens_of(branch, made))
        if len(seen) == most:
            raise _EnoughError

    hooks = [
        block.register_forward_hook(partial(watch, branch))
        for branch in adapter_for(model).branches()
        for block in branch.blocks
    ]
    try:
        yield seen
    except _EnoughError:
        pass
    finally:
        for hook in hooks:
            hook.remove()
