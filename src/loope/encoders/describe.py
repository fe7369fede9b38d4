"""Descriptions of the encoders, for the command line, the documentation and the demo."""

import inspect
from typing import NamedTuple

from loope.core.errors import LoopeError, unknown
from loope.core.grid import Grid, as_size
from loope.encoders.base import KINDS, PositionalEncoder, encoder_class, list_encoders
from loope.encoders.create import create_encoder

MODEL = ("dim", "grid", "patch_size", "channels", "heads", "depth")  # arguments that describe the model, not options


class Description(NamedTuple):
    """Name, kind, size, paper, summary and options of an encoder."""

    name: str
    kind: str
    parameters: int | None
    paper: str
    summary: str
    options: list[str]


def describe(grid: Grid, dim: int = 768, pattern: str = "*") -> list[Description]:
    """Describe the encoders whose name matches, for a ViT of this width with 12 blocks and heads of 64 channels.

    Raises:
        LoopeError: if no name matches.
    """
    names = list_encoders(pattern)
    if not names:
        raise unknown("encoder", pattern, list_encoders())
    return [_describe(name, encoder_class(name), grid, as_size(dim, "dim")) for name in names]


def _describe(name: str, cls: type[PositionalEncoder], grid: Grid, dim: int) -> Description:
    try:
        made = create_encoder(name, dim, grid, patch_size=16, heads=usual_heads(dim), depth=12)
    except LoopeError:  # the width is not supported
        made = None
    return Description(
        name=name,
        kind=", ".join(KINDS[hook] for hook in cls.hooks()),
        parameters=None if made is None else sum(parameter.numel() for parameter in made.parameters()),
        paper=cls.paper,
        summary=(inspect.getdoc(cls) or "").split("\n", 1)[0],
        options=[option for option in inspect.signature(cls).parameters if option not in MODEL],
    )


def usual_heads(dim: int) -> int:
    """Return the number of heads of about 64 channels that divides the width."""
    return next(count for count in range(max(1, dim // 64), 0, -1) if dim % count == 0)
