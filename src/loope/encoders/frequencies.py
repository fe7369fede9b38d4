"""Frequency sets: the vector W of the paper's Eq. `our`, one frequency per channel."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from loope.core.errors import LoopeError, require, unknown

Frequencies: TypeAlias = str | Tensor
LOWEST = 1e-4  # the paper's lambda


def vaswani(dim: int) -> Tensor:
    """Return 10000^(-2 floor(i/2) / dim), `(dim,)`: each frequency is shared by a sine and a cosine channel."""
    return 10000.0 ** (-2 * (torch.arange(dim, dtype=torch.float64) // 2) / dim)


def original(dim: int) -> Tensor:
    """Return 0.978^i, `(dim,)`: the paper's rounded form of Vaswani's series."""
    return geometric(dim, 0.978)


def arithmetic(dim: int) -> Tensor:
    """Return `(dim,)` frequencies evenly spaced from 1 down to 0.0001."""
    return torch.linspace(1, LOWEST, dim, dtype=torch.float64)


def geometric(dim: int, ratio: float = 0.9) -> Tensor:
    """Return ratio^i, `(dim,)`."""
    return ratio ** torch.arange(dim, dtype=torch.float64)


def random(dim: int, seed: int = 0) -> Tensor:
    """Return `(dim,)` uniform random frequencies between 0.0001 and 1, in descending order."""
    draws = torch.rand(dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (LOWEST + (1 - LOWEST) * draws).sort(descending=True).values


# An option of the set may follow its name after a colon: "geometric:0.95", "random:7".
SETS: dict[str, Callable[..., Tensor]] = {
    "vaswani": vaswani,
    "original": original,
    "arithmetic": arithmetic,
    "geometric": geometric,
    "random": random,
}


def _ratio(text: str) -> float:
    ratio = float(text)
    if not 0 < ratio <= 1:
        raise ValueError
    return ratio


_OPTION: dict[str, Callable[[str], float]] = {"geometric": _ratio, "random": int}


def frequency_set(frequencies: Frequencies, dim: int) -> Tensor:
    """Return the `(dim,)` float64 frequencies of a named set (with an option: "geometric:0.95"), or of a tensor.

    Raises:
        LoopeError: for an unknown name or option, or a tensor of another shape or with values that are not finite.
    """
    if isinstance(frequencies, Tensor):
        return _own(frequencies, dim)
    require(
        isinstance(frequencies, str),
        f"`frequencies` must be a set's name or a tensor, got {type(frequencies).__name__}; use torch.tensor(...).",
    )
    name, colon, option = frequencies.partition(":")
    if name not in SETS:
        raise unknown("frequency set", name, SETS)
    try:
        with torch.device("cpu"):  # real values even if the default device is meta
            return SETS[name](dim, _OPTION[name](option)) if colon else SETS[name](dim)
    except (KeyError, ValueError):
        raise LoopeError(
            f"The frequency set {name!r} cannot take the option {option!r}; use 'geometric:0.95' (a ratio above 0 and "
            "at most 1) or 'random:7' (a seed)."
        ) from None


def _own(frequencies: Tensor, dim: int) -> Tensor:
    require(
        frequencies.shape == (dim,) and not frequencies.is_complex(),
        f"`frequencies` must hold one real value for each of the {dim} channels, got {frequencies.dtype} of shape "
        f"{tuple(frequencies.shape)}; for sin/cos pairs repeat each value: w.repeat_interleave(2).",
    )
    own = frequencies.detach().cpu().double()
    require(bool(own.isfinite().all()), "`frequencies` must be finite; remove NaN and infinite values.")
    return own


def sinusoids(position: Tensor, frequencies: Tensor, phase: Tensor) -> Tensor:
    """Compute sin(W X + pi/2 delta), Eq. `our`.

    Args:
        position: `(..., N)` float, integer or fractional positions X.
        frequencies: `(D,)` float, W.
        phase: `(D,)` or `(N, D)` float, delta in units of a quarter turn.

    Returns:
        `(..., N, D)` float. No matrix product is used, so autocast keeps full precision.
    """
    return torch.addcmul(phase * (torch.pi / 2), position[..., None], frequencies).sin()
