"""Functions of rotary encoders, on real numbers: pairs of channels are rotated as points in a plane."""

import torch
from torch import Tensor


def waves(angles: Tensor, layout: str = "interleaved") -> Tensor:
    """Return cosines and signed sines of angles `(..., N, d/2)` for `turn`: `(2, ..., N, d)`."""
    inner = -1 if layout == "interleaved" else -2
    cos, sin = angles.cos().unsqueeze(inner), angles.sin().unsqueeze(inner)
    # Broadcasting, because stacking along the last dimension copies number by number, in twice the time.
    signs = torch.arange(-1, 2, 2, dtype=angles.dtype, device=angles.device)
    sin = sin * (signs if inner == -1 else signs[:, None])
    return torch.stack((cos.expand_as(sin), sin)).flatten(-2)


def turn(x: Tensor, cos: Tensor, sin: Tensor, layout: str = "interleaved") -> Tensor:
    """Rotate the channel pairs of `x` `(..., N, d)` by the angles of `waves`: (a cos - b sin, b cos + a sin)."""
    # Whole rows at once: reading every other channel would take a third longer.
    if layout == "interleaved":
        swapped = x.view(*x.shape[:-1], -1, 2).flip(-1).flatten(-2)
    else:
        swapped = x.view(*x.shape[:-1], 2, -1).flip(-2).flatten(-2)
    return torch.addcmul(x * cos, swapped, sin)


def turn_both(
    q: Tensor, k: Tensor, waves: Tensor, layout: str, matrix: Tensor | None = None, returns: bool = False
) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys `(B, heads, N, d)` by `waves`, after a product with `matrix` `(heads, d, d)` if given.

    `returns` multiplies by its transpose afterwards.
    """
    cos, sin = waves.to(q.dtype)
    if matrix is None:
        return turn(q, cos, sin, layout), turn(k, cos, sin, layout)
    into = matrix.mT.to(q.dtype)
    q, k = (turn(x @ into, cos, sin, layout) for x in (q, k))
    return (q @ into.mT, k @ into.mT) if returns else (q, k)


def bands(count: int, temperature: float) -> Tensor:
    """Return `count` geometric frequencies from 1 to about 1 / temperature, float64."""
    return temperature ** (-torch.arange(count, dtype=torch.float64) / count)


def centred(points: Tensor, sizes: Tensor) -> Tensor:
    """Return coordinates from -1 to 1 over images of these sizes; cells have their centres inside."""
    return 2 * (points + 0.5) / sizes - 1


def slowness(vectors: Tensor) -> Tensor:
    """Return 0 for the longest of the wave vectors `(..., d/2, 2)`, 1 for the shortest, and linear in log length."""
    lengths: Tensor = torch.linalg.vector_norm(vectors.detach(), dim=-1)
    longest = lengths.amax(-1, keepdim=True)
    slower = (longest / torch.where(lengths > 0, lengths, longest)).log()  # pairs that do not turn have length 0
    return slower / slower.amax(-1, keepdim=True).clamp(min=torch.finfo(slower.dtype).tiny)
