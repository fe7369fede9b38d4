"""Deployment: replace encoders that do not depend on the image by constants."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import GridLike, as_grid
from loope.encoders import PositionalEncoder
from loope.encoders.liere import Liere, turn_blocks
from loope.encoders.rotary_base import Rotary
from loope.encoders.rotary_waves import turn_both
from loope.positions import Positions, PositionsLike, as_positions
from loope.surgery.adapters.branch import Branch
from loope.surgery.attach import resize
from loope.surgery.find import sole_attachment
from loope.surgery.state import Attachment


class Baked(PositionalEncoder):
    """An encoder replaced by a constant, for one grid."""

    value: Tensor

    def __init__(self, encoder: PositionalEncoder, value: Tensor):
        super().__init__(encoder.dim, encoder.grid)
        self.name = f"{encoder.name} (baked)"  # type: ignore[misc]
        self.register_buffer("value", value.detach().to(encoder.dtype))

    def resize(self, grid: GridLike) -> PositionalEncoder:
        """Check that the grid stays the same.

        Raises:
            LoopeError: for another grid.
        """
        self.at(as_grid(grid), 0)
        return self

    def at(self, positions: PositionsLike, layer: int) -> Tensor:
        """Return the constant of a layer; equal layers share one.

        Raises:
            LoopeError: if the positions are not all cells of the baked grid.
        """
        place = as_positions(positions)
        if place.whole != self.grid:
            got = f"{place.length} patches of {place.grids[0]}" if place.whole is None else place.whole
            raise LoopeError(f"The model was baked for a grid of {self.grid}, got {got}; bake a copy for that size.")
        return self.value[layer if len(self.value) > 1 else 0]


class BakedTable(Baked):
    """A baked additive encoder, `(1, 1, N, D)`."""

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        return self.at(positions, 0)


class BakedRotation(Baked):
    """A baked rotary encoder: cosines and sines, `(layers, 2, 1, heads or 1, N, d)`."""

    matrices: Tensor | None  # of a learned basis, `(blocks, heads, d, d)`

    def __init__(self, encoder: Rotary, value: Tensor, matrices: Tensor | None, returns: bool):
        super().__init__(encoder, value)
        self.layout = encoder.layout
        self.returns = returns
        self.register_buffer("matrices", None if matrices is None else matrices.detach().to(encoder.dtype))

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        matrix = None if self.matrices is None else self.matrices[layer]
        return turn_both(q, k, self.at(positions, layer), self.layout, matrix, self.returns)

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.rotate(q, k, positions, layer)  # the angles were multiplied by the strength before


class BakedMatrices(Baked):
    """A baked `liere`: rotations of blocks of channels, `(layers, 1, heads, N, d/b, b, b)`."""

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        rotations = self.at(positions, layer).to(q.dtype)
        return turn_blocks(q, rotations), turn_blocks(k, rotations)

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.rotate(q, k, positions, layer)  # the matrices were multiplied by the strength before


class BakedBias(Baked):
    """A baked bias, `(layers, 1, heads, P + N, P + N)`, so that no block has to add the prefix."""

    reads_content = False

    def __init__(self, encoder: PositionalEncoder, value: Tensor, prefix: int):
        super().__init__(encoder, value)
        self.prefix_tokens = prefix
        self.bias_per_layer = len(value) > 1

    def bias(self, q: Tensor, positions: Positions, layer: int) -> Tensor:
        count = self.prefix_tokens
        return self.at(positions, layer)[..., count:, count:].to(q.dtype)

    def bias_with_prefix(self, q: Tensor, positions: Positions, layer: int, prefix: int) -> Tensor:
        return self.at(positions, layer).to(q.dtype)


def bake(model: nn.Module, size: GridLike) -> None:
    """Prepare an attached model for deployment at one image size, in place and irreversibly.

    Encoders that do not depend on the image become constants; LOOPE, PEG, PaPE and contextual iRPE stay as they are,
    and so do rotary and bias encoders in windows, which differ between blocks. The model is put in eval mode, its
    parameters no longer require gradients, and its unused own encoding is dropped.

    Args:
        model: a model with encoders attached.
        size: (height, width) of the images.
    """
    attachment = sole_attachment(model)
    require(not attachment.baked, "The model is baked already; for another size, bake a copy made before.")
    resize(model, size)
    model.eval().requires_grad_(False)
    attachment.unwire()
    for number, branch in enumerate(attachment.branches):
        windows = any(attachment.host.adapter.window(block) is not None for block in branch.blocks)
        encoders = [
            encoder
            if windows and {"rotate", "bias"} & set(encoder.hooks())
            else _baked(encoder, branch, attachment.strength)
            for encoder in attachment.encoders_of(number)
        ]
        attachment.encoders[number] = nn.ModuleList(encoders)
    _drop_own(attachment)
    attachment.wire()


@torch.no_grad()
def _baked(encoder: PositionalEncoder, branch: Branch, strength: Tensor | None) -> PositionalEncoder:
    if encoder.reads_content or len(encoder.hooks()) != 1:
        return encoder
    grid, depth, prefix = Positions((encoder.grid,)), len(branch.blocks), branch.others
    if "embed" in encoder.hooks():
        return BakedTable(encoder, encoder(None)[None]).eval()
    if isinstance(encoder, Rotary):
        rotations = [encoder.waves_at(grid, layer, strength) for layer in range(depth)]
        bases = [encoder.matrix_at(layer, strength) for layer in range(depth)]
        matrices = [matrix for matrix, _ in bases if matrix is not None]
        stacked = torch.stack(matrices) if matrices else None
        return BakedRotation(encoder, _once(torch.stack(rotations)), stacked, bases[0][1]).eval()
    if isinstance(encoder, Liere):
        return BakedMatrices(
            encoder, torch.stack([encoder.rotations(grid, layer, strength) for layer in range(depth)])
        ).eval()
    if "bias" in encoder.hooks():
        query = encoder._anchor.new_zeros(1, 1, grid.length, 1)  # not read
        layers = range(depth if encoder.bias_per_layer else 1)
        biases = torch.stack([encoder.bias_with_prefix(query, grid, layer, prefix) for layer in layers])
        return BakedBias(encoder, _once(biases), prefix).eval()
    return encoder


def _once(layers: Tensor) -> Tensor:
    """Keep one entry if all layers are equal."""
    return layers[:1] if bool((layers == layers[0]).all()) else layers


def _drop_own(attachment: Attachment) -> None:
    attachment.baked = True
    attachment.host.taken.clear()
    attachment.own = nn.Module()
