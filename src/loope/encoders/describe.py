"""Descriptions of the encoders, for the command line, the documentation and the demo."""

import inspect
from typing import NamedTuple

import torch

from loope.core.errors import LoopeError, one_of, unknown
from loope.core.grid import Grid, GridLike, as_size
from loope.encoders.base import KINDS, NO_POSITIONS, PositionalEncoder, encoder_class, list_encoders
from loope.encoders.create import create_encoder

MODEL = ("dim", "grid", "patch_size", "channels", "heads", "depth")  # arguments that describe the model, not options
ALL_KINDS = (NO_POSITIONS, *KINDS.values())
# What happens at another size.
RESAMPLED, STRETCHED, CELLS, UNKNOWN = "resampled", "stretched", "in cells", "-"


class Description(NamedTuple):
    """What an encoder is.

    Attributes:
        name: its name.
        kind: one of `ALL_KINDS`, or several with commas.
        parameters: number of parameters; None if the width is not supported.
        sizes: what happens at another size: "resampled" learned parameters, positions that are "stretched" over every
            image or count "in cells" (and go beyond the trained range in larger images), a "new curve", or "-" if that
            does not apply.
        flash: whether it works with flash attention, which takes no bias.
        onnx: "yes", or why models with it cannot be exported to ONNX.
        paper: its paper.
        summary: what it does.
        options: names of its options.
    """

    name: str
    kind: str
    parameters: int | None
    sizes: str
    flash: bool
    onnx: str
    paper: str
    summary: str
    options: list[str]


def describe(grid: Grid, dim: int = 768, pattern: str = "*", kind: str | None = None) -> list[Description]:
    """Describe the encoders whose name matches, for a ViT of this width with 12 blocks and heads of 64 channels.

    Args:
        grid: (height, width) of the grid.
        dim: width of the tokens.
        pattern: names, with * as a wildcard.
        kind: one of `ALL_KINDS`; None for all.

    Raises:
        LoopeError: if no name matches, or the kind is unknown.
    """
    if kind is not None:
        one_of("kind", kind, ALL_KINDS)
    names = list_encoders(pattern)
    if not names:
        raise unknown("encoder", pattern, list_encoders())
    chosen = [name for name in names if kind is None or kind in encoder_class(name).kinds()]
    return [_describe(name, encoder_class(name), grid, as_size(dim, "dim")) for name in chosen]


def grouped(rows: list[Description]) -> dict[str, list[Description]]:
    """Return descriptions by kind, in the order of `ALL_KINDS`, then those of several kinds."""
    kinds = dict.fromkeys([*ALL_KINDS, *(row.kind for row in rows)])
    groups = {kind: [row for row in rows if row.kind == kind] for kind in kinds}
    return {kind: group for kind, group in groups.items() if group}


def _describe(name: str, cls: type[PositionalEncoder], grid: Grid, dim: int) -> Description:
    try:
        made = _made(name, dim, grid)
    except LoopeError:  # the width is not supported
        made = None
    return Description(
        name=name,
        kind=", ".join(cls.kinds()),
        parameters=None if made is None else sum(parameter.numel() for parameter in made.parameters()),
        sizes=cls.at_other_sizes or _at_other_sizes(name),
        flash="bias" not in cls.hooks(),
        onnx=cls.no_onnx or "yes",
        paper=cls.paper,
        summary=(inspect.getdoc(cls) or "").split("\n", 1)[0],
        options=[option for option in inspect.signature(cls).parameters if option not in MODEL],
    )


@torch.no_grad()
def _at_other_sizes(name: str) -> str:
    """Try what happens at another size: resampled parameters change shape, stretched neighbours grow more alike."""
    try:
        short, long = (_made(name, 768, (1, length)).eval().double() for length in (14, 28))
        if [each.shape for each in short.parameters()] != [each.shape for each in long.parameters()]:
            return RESAMPLED
        one, other = (short.similarity(each.grid)[0, 1] for each in (short, long))  # of two neighbours
    except Exception:  # a user's encoder need not have a similarity, nor take a grid of one row
        return UNKNOWN
    return CELLS if torch.allclose(one, other, rtol=0, atol=1e-9) else STRETCHED


def _made(name: str, dim: int, grid: GridLike) -> PositionalEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return create_encoder(name, dim, grid, patch_size=16, heads=usual_heads(dim), depth=12)


def usual_heads(dim: int) -> int:
    """Return the number of heads of about 64 channels that divides the width."""
    return next(count for count in range(max(1, dim // 64), 0, -1) if dim % count == 0)
