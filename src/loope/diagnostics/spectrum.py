"""The frequencies of rotary encodings, measured: how far each channel pair turns across a grid."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, GridLike, as_grid
from loope.diagnostics.attention import Seen, blocks, require_all_pairs, spying
from loope.diagnostics.tokens import Watched
from loope.encoders import PositionalEncoder
from loope.positions import Positions
from loope.surgery.own import first_output

SLOW = 1 / 8  # turns across the grid below which a pair hardly tells places apart
SECTORS = 12  # of half a circle, in which directions are counted
LEAST = 1e-4  # radians a cell below which a pair does not turn
LAYOUTS = ("interleaved", "half")


class RotarySpectrum(NamedTuple):
    """What the channel pairs of a rotary encoding do on a grid.

    Attributes:
        frequencies: `(blocks, heads, pairs, 2)` float64, radians a cell along rows and columns, up to whole turns.
        grid: the grid.
        layout: which channels are a pair: "interleaved" (0, 1), (2, 3), ..., or "half" (0, d/2), (1, d/2 + 1), ...
    """

    frequencies: Tensor
    grid: Grid
    layout: str

    @property
    def turns(self) -> Tensor:
        """Return the turns of each pair from corner to corner of the grid, `(blocks, heads, pairs)`."""
        return (self.frequencies.abs() * torch.tensor(self.grid).double()).sum(-1) / (2 * math.pi)

    @property
    def slow(self) -> int:
        """Return how many pairs turn less than an eighth across the grid, on average over blocks and heads."""
        return round(float((self.turns < SLOW).double().sum(-1).mean()))

    @property
    def directions(self) -> int:
        """Return how many of 12 directions, of 15 degrees each, some pair of some head turns along."""
        moving = self.frequencies[self.frequencies.norm(dim=-1) > LEAST]
        angle = torch.atan2(moving[:, 0], moving[:, 1]) * SECTORS / math.pi
        return len(torch.unique(angle.round().long() % SECTORS))

    @property
    def warnings(self) -> list[str]:
        """Return what may be wrong with the frequencies, in words."""
        pairs, found = self.frequencies.shape[-2], []
        if self.slow:
            cells = max(self.grid)
            found.append(f"{self.slow} of {pairs} pairs turn less than an eighth over {cells} cells")
        if self.directions < 3:
            found.append(f"pairs turn along {self.directions} of {SECTORS} directions only")
        return found


def rotary_spectrum(
    encoder_or_model: PositionalEncoder | nn.Module, grid: GridLike | None = None, *, branch: int = 0
) -> RotarySpectrum:
    """Measure the frequencies of a rotary encoder, or of a model whose own or attached encoding is rotary.

    Equal queries q are rotated to q[r, c]. As complex numbers z of a channel pair, a neighbour is
    z[r + 1, c] / z[r, c] = exp(i f), which gives the frequency f along rows, and likewise along columns.

    Args:
        encoder_or_model: a rotary encoder, or a model that `loope.attach` supports.
        grid: the grid to measure on; by default that of the encoder or model. A model must accept images of that size.
        branch: number of the sequence of patches, for models with several.

    Raises:
        LoopeError: if queries are not rotated, or not by angles that are linear in row and column.

    Examples:
        >>> import loope
        >>> spectrum = loope.rotary_spectrum(loope.create_encoder("as2drope", dim=64, grid=14, heads=1))
        >>> spectrum.warnings[0]
        '20 of 32 pairs turn less than an eighth over 14 cells'
    """
    if isinstance(encoder_or_model, PositionalEncoder):
        encoder = encoder_or_model
        require("rotate" in encoder.hooks(), f"{encoder.name!r} does not rotate queries; it has no spectrum.")
        cells = encoder.grid if grid is None else as_grid(grid)
        return spectrum_of(_of_encoder(encoder, cells), cells)
    watched = Watched(encoder_or_model, branch)
    cells = watched.branch.grid if grid is None else as_grid(grid)
    return spectrum_of(equal_queries(watched, cells), cells)


def spectrum_of(queries: Tensor, grid: Grid) -> RotarySpectrum:
    """Return the spectrum of queries `(blocks, heads, N, d)` that were equal before they were rotated."""
    require(min(grid) > 1, f"Frequencies are measured on a grid of 2x2 cells or more, got {grid}.")
    for layout in LAYOUTS:
        z = pairs_of(queries.double(), layout)
        z = z.reshape(*z.shape[:2], *grid, -1)  # (blocks, heads, h, w, pairs)
        found = _frequencies(z)
        if found is not None:
            require(bool((found.abs() > LEAST).any()), "Queries are not rotated: there is no rotary encoding here.")
            return RotarySpectrum(found, grid, layout)
    raise LoopeError(
        "Queries of equal tokens differ between places, but not as rotations that are linear in row and column; see "
        "loope.audit, and detach encoders that read the image."
    )


def pairs_of(queries: Tensor, layout: str) -> Tensor:
    """Return channel pairs `(..., d/2)` as complex numbers."""
    if layout == "half":
        return torch.complex(*queries.chunk(2, dim=-1))
    return torch.view_as_complex(queries.reshape(*queries.shape[:-1], -1, 2).contiguous())


@torch.no_grad()
def equal_queries(watched: Watched, grid: Grid, size: Grid | None = None) -> Tensor:
    """Return the queries of patches in every block if all tokens are equal, `(blocks, heads, N, d)`."""
    seen = equal_tokens(watched, grid, size)
    found = [each.queries for each in seen]
    if any(each is None for each in found):
        raise LoopeError("The queries of this model's attention cannot be seen; use 'sdpa' or 'eager' attention.")
    return torch.stack([each[0, :, watched.branch.others :] for each in found if each is not None])


def equal_tokens(watched: Watched, grid: Grid, size: Grid | None = None) -> list[Seen]:
    """Run the model with one and the same token everywhere at the entry of every block; return its attention.

    Args:
        watched: the model.
        grid: the grid of patches.
        size: image size in pixels, if the model scales images before it cuts them into patches.
    """
    branch = watched.branch
    draw = torch.Generator().manual_seed(0)
    token = torch.randn(branch.dim, generator=draw)

    def replace(module: nn.Module, args: Any, kwargs: Any) -> Any:
        tokens = first_output(args or tuple(kwargs.values()))
        equal = branch.as_in_model(token.to(tokens).expand_as(branch.channels_last(tokens)))
        if args:
            return (equal, *args[1:]), kwargs
        return args, {**kwargs, next(iter(kwargs)): equal}

    like = next(branch.patch_embed.parameters())
    side = branch.patch_size
    size = size or Grid(grid.height * side, grid.width * side)
    images = torch.zeros(1, branch.channels, *size).to(like)
    hooks = [block.register_forward_pre_hook(replace, with_kwargs=True) for block in branch.blocks]
    try:
        with spying(watched, lambda each: each) as seen:
            found = watched.run(images).grid
    finally:
        for hook in hooks:
            hook.remove()
    require(found == grid, f"Expected a grid of {grid}, got {found}; pass the grid that the model has at this size.")
    attended = blocks(seen)
    for each in attended:
        require_all_pairs(each.scores, grid, branch.others)
    return attended


def _of_encoder(encoder: PositionalEncoder, grid: Grid) -> Tensor:
    heads, depth = getattr(encoder, "heads", 1), getattr(encoder, "depth", None)
    layers = depth or getattr(encoder, "_layers", lambda: 1)()
    queries = torch.ones(1, heads, grid.size, encoder.dim // heads, dtype=encoder.wide, device=encoder._anchor.device)
    with torch.no_grad():
        made = [encoder.rotate(queries, queries, Positions((grid,)), layer)[0][0] for layer in range(layers)]
    return torch.stack(made).cpu()


def _frequencies(z: Tensor) -> Tensor | None:
    """Return radians a cell along rows and columns, or None unless all neighbours turn by the same angle."""
    found = []
    for axis in (2, 3):
        size = z.shape[axis]
        step = z.narrow(axis, 1, size - 1) * z.narrow(axis, 0, size - 1).conj()
        step = step / z.abs().square().mean((2, 3), keepdim=True).clamp(min=1e-30)
        mean = step.mean((2, 3))
        if bool(((step - mean[:, :, None, None]).abs() > 0.05).any()) or bool(((mean.abs() - 1).abs() > 0.05).any()):
            return None
        found.append(mean.angle())
    return torch.stack(found, dim=-1)
