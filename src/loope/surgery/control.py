"""Control an attached model: how strongly its encoders act, and where they take the patches to be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from loope.core.errors import require, shown
from loope.positions import PositionsLike, as_positions
from loope.surgery.find import all_attachments, required_attachment, unwrapped


@contextmanager
def use_positions(model: nn.Module, positions: PositionsLike) -> Iterator[None]:
    """Tell an attached model where its patches are, instead of on the grid of the image.

    Only encoders follow; the model's own encoding, if kept, does not.

    Args:
        model: a model with encoders attached.
        positions: positions of the patches of every image, in this thread, until the context ends.

    Examples:
        >>> import loope, timm, torch
        >>> model = loope.attach(timm.create_model("vit_tiny_patch16_224", depth=1), "rope_axial").eval()
        >>> images = torch.rand(1, 3, 224, 224)
        >>> with use_positions(model, loope.Positions.grid(14, 14).shift(rows=3)):
        ...     moved = model(images)
        >>> torch.allclose(moved, model(images), atol=1e-4)  # rotary scores depend on offsets only
        True

    Raises:
        LoopeError: if nothing is attached.
    """
    place = as_positions(positions)
    host = required_attachment(unwrapped(model)).host
    require(len(host.places) == 1, "A model with several grids of patches cannot be given one set of positions.")
    before, host.places[0].given = host.places[0].given, place
    try:
        yield
    finally:
        host.places[0].given = before


def set_strength(model: nn.Module, strength: float, *, own: float | None = None) -> None:
    """Set how strongly the attached encoders act, from 0 (as if they were not there) to 1.

    Vectors, biases and angles are multiplied by it; a convolution's result is blended with its input. What an encoder
    hides from attention is seen with weight 1 - strength. Compiled models follow without compiling again, except for
    the first call.

    Args:
        model: a model with encoders attached.
        strength: of the encoders.
        own: of the model's own encoding, which must have been kept with `keep_own=True`.

    Raises:
        LoopeError: if nothing is attached, a strength is not between 0 and 1, or the own encoding is unused.
    """
    model = unwrapped(model)
    attachment = required_attachment(model)
    for name, value in (("strength", strength), ("own", own)):
        require(
            (value is None and name == "own") or (isinstance(value, int | float) and 0 <= value <= 1),
            f"`{name}` must be a number from 0 to 1, got {shown(value)}.",
        )
    require(
        own is None or attachment.spec["keep_own"],
        "`own` is the strength of the model's own encoding, which is unused here; attach with keep_own=True.",
    )
    require(not attachment.baked, "A baked model's encoders are constants; set the strength before loope.bake.")
    for each in all_attachments(model):  # PEFT has copies
        each.set_strengths(strength, attachment.strengths[1] if own is None else own)
