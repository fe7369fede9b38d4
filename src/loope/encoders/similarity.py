"""The similarity of positions under any kind of encoder, as one matrix."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require, shown
from loope.core.grid import GridLike, as_grid
from loope.core.limits import require_comparable
from loope.core.ranks import round_off
from loope.core.tensors import as_real
from loope.encoders.base import PositionalEncoder
from loope.positions import Positions


def encoder_similarity(
    encoder: PositionalEncoder,
    grid: GridLike | None = None,
    *,
    images: Tensor | None = None,
    tokens: Tensor | None = None,
) -> Tensor:
    """Return the similarity E of positions, for `loope.pesi_from_similarity`.

    - additive: the cosine of the vectors. With `images`, averaged over the images; without, LOOPE uses its static order
      (X_C = 0).
    - conditional: the cosine of the output tokens. With `tokens`, a batch of token maps, averaged over them; without,
      for equal tokens (all ones), where only the padding distinguishes positions.
    - rotary: the cosine of the angle difference, averaged over heads and frequencies, that is, the score of two equal
      vectors. Learned frequencies are averaged over blocks too.
    - bias: the bias averaged over heads (and blocks). iRPE's contextual bias is for a query of ones; its tables start
      at zero, so before training E is constant.

    Computed in float64 by a copy of the encoder in eval mode, then rounded to multiples of 2^-40 of the largest value's
    power of two, so that values that are equal in exact arithmetic are equal.

    Args:
        encoder: any encoder.
        grid: (height, width); by default the encoder's own.
        images: `(B, C, H, W)` float, for additive encoders.
        tokens: `(B, N, D)` float, for conditional encoders.

    Returns:
        `(N, N)` float64.

    Raises:
        LoopeError: for images or tokens that the encoder does not read, or a grid that is too large.
    """
    require(
        isinstance(encoder, PositionalEncoder), f"`encoder` must be a loope.PositionalEncoder, got {shown(encoder)}."
    )
    require(
        not any(each.is_meta for each in (*encoder.parameters(), *encoder.buffers())),
        f"{encoder.name!r} is on the device meta and has no values to compare; move it with to_empty, or make it anew.",
    )
    place = encoder.grid if grid is None else as_grid(grid)
    require_comparable(place)
    measured = copy.deepcopy(encoder).double().eval()
    with torch.no_grad(), torch.autocast(encoder._anchor.device.type, enabled=False):
        if images is not None:
            _needs(encoder, "embed", "images")
            seen = _finite(as_real(images, "images", (4,), "(B, C, H, W)"), "images")
            similarity = _cosines(measured(seen.double(), place))
        elif tokens is not None:
            _needs(encoder, "mix", "tokens")
            given = _finite(as_real(tokens, "tokens", (3,), f"(B, {place.size}, {encoder.dim})"), "tokens")
            require(
                given.shape[1:] == (place.size, encoder.dim),
                f"`tokens` must be (B, {place.size}, {encoder.dim}) for a grid of {place}, got {tuple(given.shape)}.",
            )
            layer = getattr(encoder, "after", 0)
            similarity = _cosines(measured.mix(given.double(), Positions((place,)), layer))
        else:
            similarity = measured.similarity(place).double()
    require(
        bool(similarity.isfinite().all()),
        f"{encoder.name!r} gives similarities that are NaN or infinite; look at its weights.",
    )
    return round_off(similarity, 2.0 ** torch.frexp(similarity.abs().max())[1].double())


def _finite(value: Tensor, name: str) -> Tensor:
    require(len(value) > 0, f"`{name}` must hold at least one sample, got shape {tuple(value.shape)}.")
    require(bool(value.isfinite().all()), f"`{name}` must be finite, got NaN or infinite values.")
    return value


def _needs(encoder: PositionalEncoder, hook: str, what: str) -> None:
    if hook not in encoder.hooks():
        raise LoopeError(f"{encoder.name!r} has no `{hook}` that reads `{what}`; leave `{what}` out.")


def _cosines(vectors: Tensor) -> Tensor:
    """Return the cosine of `(B, N, D)` vectors averaged over B, `(N, N)`."""
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    return (unit @ unit.mT).mean(0)
