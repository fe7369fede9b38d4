"""Create any encoder and call all of its hooks, so that one test covers all encoders."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import loope
from loope.core.grid import Grid, GridLike, as_grid

DIM, HEADS, DEPTH, PATCH, BATCH = 32, 4, 2, 4, 3
NAMES = loope.list_encoders()
every_encoder = pytest.mark.parametrize("name", NAMES)


def make(name: str, grid: GridLike, seed: int = 0, **options) -> loope.PositionalEncoder:
    """Create an encoder; parameters that start from zero get random values, since zeros would hide faults."""
    torch.manual_seed(seed)
    encoder = loope.create_encoder(name, DIM, grid, patch_size=PATCH, heads=HEADS, depth=DEPTH, **options)
    for parameter in encoder.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.1)
    return encoder


def reads(encoder) -> set[str]:
    """Return the inputs that an encoder's output depends on besides the grid."""
    by_hook = {"embed": {"images"}, "mix": {"tokens"}, "bias": {"q"}} if encoder.reads_content else {}
    return set().union(*({"rotate": {"q", "k"}, **by_hook}.get(hook, set()) for hook in encoder.hooks()))


class Inputs(NamedTuple):
    """The inputs of all hooks."""

    images: Tensor
    tokens: Tensor
    q: Tensor
    k: Tensor


def inputs(grid: GridLike, seed: int = 0, batch: int = BATCH, **kind) -> Inputs:
    grid, draw = as_grid(grid), torch.Generator().manual_seed(seed)
    shapes = [
        (batch, 3, grid.height * PATCH, grid.width * PATCH),
        (batch, grid.size, DIM),
        (batch, HEADS, grid.size, DIM // HEADS),
        (batch, HEADS, grid.size, DIM // HEADS),
    ]
    return Inputs(*(torch.randn(shape, generator=draw).to(**kind) for shape in shapes))


def hook_outputs(encoder: loope.PositionalEncoder, given: Inputs, grid: Grid | None = None) -> dict[str, Tensor]:
    """Call every hook on the encoder's grid, or on the one given; return the outputs by name."""
    place, hooks, out = grid or encoder.grid, encoder.hooks(), {}
    if "embed" in hooks:
        out["embed"] = encoder(given.images, grid)
    for layer in range(DEPTH):
        if "mix" in hooks:
            out[f"mix {layer}"] = encoder.mix(given.tokens, place, layer)
        if "rotate" in hooks:
            q, k = encoder.rotate(given.q, given.k, place, layer)
            if q.shape == given.q.shape:
                out[f"rotate q {layer}"], out[f"rotate k {layer}"] = q, k
            else:  # what the additional channels hold may depend on the dtype
                out[f"scores {layer}"] = q @ k.mT
        if "bias" in hooks:
            out[f"bias {layer}"] = encoder.bias(given.q, place, layer)
    return out


class Called(nn.Module):
    """All hooks as one module, for compilers."""

    def __init__(self, encoder: loope.PositionalEncoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor, tokens: Tensor, q: Tensor, k: Tensor) -> dict[str, Tensor]:
        return hook_outputs(self.encoder, Inputs(images, tokens, q, k))


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor], **tolerance) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)
