"""What each encoder is, in a row: for the command line, the documentation and the demo."""

import inspect
from typing import NamedTuple

from loope.core.grid import Grid
from loope.encoders.base import KINDS, create_encoder, encoder_class, list_encoders

MODEL = ("dim", "grid", "patch_size", "channels", "heads", "depth")  # described by the model, not chosen


class Description(NamedTuple):
    """A row about an encoder."""

    name: str
    kind: str
    parameters: int
    paper: str
    summary: str
    options: list[str]


def describe(grid: Grid, dim: int = 768, pattern: str = "*") -> list[Description]:
    """The encoders whose name matches, as they are in a ViT of this width with 12 blocks and heads of 64 channels."""
    rows = []
    for name in list_encoders(pattern):
        cls = encoder_class(name)
        made = create_encoder(name, dim, grid, patch_size=16, heads=max(1, dim // 64), depth=12)
        rows.append(
            Description(
                name=name,
                kind=", ".join(KINDS[hook] for hook in cls.hooks()),
                parameters=sum(parameter.numel() for parameter in made.parameters()),
                paper=cls.paper,
                summary=(inspect.getdoc(cls) or "").split("\n", 1)[0],
                options=[option for option in inspect.signature(cls).parameters if option not in MODEL],
            )
        )
    return rows
