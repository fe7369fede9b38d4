"""LieRE: rotations by the exponential of learned matrices."""

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from loope.core.errors import require_multiple
from loope.core.grid import Grid, GridLike, as_size
from loope.encoders.base import register_encoder
from loope.encoders.refine import Refinable, Refine
from loope.encoders.rotary_waves import centred
from loope.positions import Positions, PositionsLike, as_positions
from loope.positions.augment import Augment

STD = 0.5  # of the entries at the start: in 64 channels, the fastest plane turns by 8 radians over half of the image


@register_encoder("liere")
class Liere(Refinable):
    """Rotations exp(row A + column B) with learned skew-symmetric A and B, for each block and head.

    A and B need not commute, so scores are not exactly relative: they depend on offsets alone only along lines through
    the centre of the image. Coordinates run from -1 to 1 over the image, which is ours, so other grids stay in the
    trained range. Matrix exponentials are slow, and ONNX has none:
    `loope.bake` makes them constants.

    Args:
        dim: width D of the tokens, divisible by the number of heads.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        block: A and B are block-diagonal, with blocks of this many channels, or the largest common divisor with the
            width of a head; None is dense, the paper's full form, ten times slower for heads of 64 channels.
        refine: "image" moves patches by what the image shows; options as a dictionary or `ImageRefinement`.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
        augment: random moves while training, as for `RopeAxial`.
        fuzzy: as for `RopeAxial`.
    """

    paper = "Ostmeier et al., 2024"
    reads_content = False
    no_onnx = "baked: no matrix exponential"

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        heads: int,
        depth: int,
        block: int | None = 8,
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
        *,
        augment: Augment = None,
        fuzzy: float = 0.0,
    ):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")
        require_multiple("dim", self.dim, self.heads, f"{self.name!r} with {self.heads} heads")
        width = self.dim // self.heads
        self.block = width if block is None else math.gcd(width, as_size(block, "block"))
        shape = (2, as_size(depth, "depth"), self.heads, width // self.block, self.block, self.block)
        # Skew-symmetric as P - P', whose entries have twice the variance.
        self.generators = nn.Parameter(torch.randn(shape) * (STD / math.sqrt(2)))
        self._augment_by(augment, fuzzy)
        self._refine_by(refine, patch_size, channels)

    def rotations(self, positions: PositionsLike, layer: int, strength: Tensor | None = None) -> Tensor:
        """Return the rotations of the channels in blocks of b, `(1 or B, heads, N, d/b, b, b)`."""
        self._check_layer(layer, self.generators.shape[1])
        place = as_positions(positions)
        if place.moved is None:
            points = self.per_patch("_coordinates", place)
        else:
            points = centred(*self._plane(place)).to(self.wide)
        values = self.generators[:, layer].to(points.dtype)
        values = values if strength is None else values * strength
        rows, columns = (values - values.mT)[:, :, None]  # (heads, 1, d/b, b, b) each
        row, column = points[:, None, :, :, None, None, None].unbind(3)  # (1 or B, 1, N, 1, 1, 1) each
        # Within the image a number for the parameters alone, so that a patch gets the same whatever the others.
        largest = (rows.abs() + columns.abs()).sum(-1).amax() * points.abs().amax().clamp(min=1)
        return exponential(row * rows + column * columns, largest.detach())

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys by their positions."""
        return self._rotated(q, k, positions, layer, None)

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rotate by the exponential of the matrices times `strength`."""
        return self._rotated(q, k, positions, layer, strength)

    def _rotated(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        place = as_positions(positions)
        self._check_tokens(q, place)
        self._check_tokens(k, place)
        rotations = self.rotations(place, layer, strength).to(q.dtype)
        return turn_blocks(q, rotations), turn_blocks(k, rotations)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the mean score of two equal random vectors of length 1 over heads and blocks, `(N, N)`."""
        place = self._place(grid)
        kernels = []
        for layer in range(self.generators.shape[1]):
            rotations = self.rotations(place, layer)[0].transpose(0, 1).flatten(1)
            kernels.append(rotations @ rotations.T / self.dim)  # the trace of R' S is the sum of their products
        return torch.stack(kernels).mean(0)

    def no_weight_decay(self) -> set[str]:
        return {"generators"}

    def _coordinates(self, grid: Grid) -> Tensor:
        return centred(*Positions((grid,)).plane(torch.float64))[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}, block={self.block}"


def exponential(matrices: Tensor, largest: Tensor) -> Tensor:
    """Return the exponentials of matrices `(..., b, b)` whose norms are at most `largest`.

    They are scaled down, put into the series, and squared. torch's function is as exact, but takes several times as
    long with its gradient. Compilers use it, since they cannot choose the number of squarings by a value.
    """
    tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if torch.compiler.is_compiling() or tracing or matrices.is_meta:
        made: Tensor = torch.linalg.matrix_exp(matrices)
        return made
    # Up to this norm, the ninth term is lost in the rounding of the first.
    enough = (math.factorial(9) * torch.finfo(matrices.dtype).eps) ** (1 / 8)
    squarings = int(torch.frexp(largest / enough).exponent.clamp(0, 100))
    # Twenty such tensors would be kept for the gradient: make them again.
    series: Tensor = checkpoint(_series, matrices, squarings, use_reentrant=False, preserve_rng_state=False)
    return series


def _series(matrices: Tensor, squarings: int) -> Tensor:
    """Return the series of the exponential up to the eighth power of the scaled matrices, squared."""
    with torch.autocast(matrices.device.type, enabled=False):
        one = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
        first = matrices / 2**squarings
        second = first @ first
        third = second @ first
        inner = one / 720 + first / 5040 + second / 40320
        made: Tensor = one + first + second / 2 + third @ (one / 6 + first / 24 + second / 120 + third @ inner)
        for _ in range(squarings):
            made = made @ made
    return made


def turn_blocks(x: Tensor, rotations: Tensor) -> Tensor:
    """Rotate blocks of b channels of `x` `(B, heads, N, d)` by `rotations` `(1 or B, heads, N, d/b, b, b)`."""
    blocks = x.view(*x.shape[:-1], -1, rotations.shape[-1])
    if len(rotations) == 1:  # one product for all images
        return torch.einsum("hnkij,bhnkj->bhnki", rotations[0], blocks).flatten(-2)
    return torch.einsum("bhnkij,bhnkj->bhnki", rotations, blocks).flatten(-2)
