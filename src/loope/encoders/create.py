"""Create encoders by name."""

from __future__ import annotations

from typing import Any

from loope.core.grid import GridLike
from loope.encoders.base import ENCODERS, PositionalEncoder
from loope.encoders.projected import Projected


def create_encoder(
    name: str,
    dim: int,
    grid: GridLike,
    *,
    patch_size: int | None = None,
    channels: int | None = None,
    heads: int | None = None,
    depth: int | None = None,
    project: bool = False,
    **options: Any,
) -> PositionalEncoder:
    """Create an encoder by name.

    The named arguments describe the model; each encoder takes those it needs and ignores the others. Unknown options
    raise.

    Args:
        name: one of `list_encoders()`.
        dim: width D of the tokens.
        grid: side length or (height, width) of the grid of patches.
        patch_size: side of a patch in pixels, for encoders that read the image.
        channels: channels of the image, for encoders that read it.
        heads: number of attention heads, for encoders that act in attention.
        depth: number of blocks, for encoders with parameters per block.
        project: pass the vectors of an additive encoder through a trainable projection, so that it can imitate a table.
        options: the encoder's own options; see its class.

    Raises:
        LoopeError: for an unknown name or option, or a missing or invalid argument.
    """
    context = {"dim": dim, "grid": grid, "patch_size": patch_size, "channels": channels, "heads": heads, "depth": depth}
    made: PositionalEncoder = ENCODERS.create(name, context, options)
    return Projected(made) if project else made
