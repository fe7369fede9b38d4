"""PaPE: parabolas of relative positions, added to the scores through a few more channels of queries and keys."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import require_multiple
from loope.core.grid import GridLike, as_size
from loope.encoders.base import PositionalEncoder, register_encoder
from loope.positions import Positions, as_positions

MULTIPLE = 8  # of channels, which attention kernels prefer
HALF = (torch.float16, torch.bfloat16)


@register_encoder("pape")
class Parabolic(PositionalEncoder):
    """A sum of -a (u_i - u_j)^2 + b (u_i - u_j): u is a learned projection of positions, a and b depend on the query.

    In the plane any sum of them is one quadratic form of the key's row and column, so that it takes six more channels
    and no N x N matrix: the query's hold its coefficients, the key's 1, y, x, y^2, yx and x^2. Half precision takes
    18, since each number becomes the sum of two.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        heads: attention heads.
        depth: blocks of the model.
        parabolas: number of parabolas for each head and block.
    """

    paper = "Øhrstrøm et al., 2026 (PaPE)"
    widens = True

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        return ("bias",)  # `rotate` adds to the scores, and turns nothing

    def __init__(self, dim: int, grid: GridLike, heads: int, depth: int, parabolas: int = 4):
        super().__init__(dim, grid)
        self.heads = as_size(heads, "heads")
        require_multiple("dim", self.dim, self.heads, f"{self.name!r} with {self.heads} heads")
        self.depth, count = as_size(depth, "depth"), as_size(parabolas, "parabolas")
        self.width = self.dim // self.heads
        # At the start a patch ten cells away loses about 3 in score.
        self.projection = nn.Parameter(torch.randn(self.depth, self.heads, count, 2) * 0.1)
        self.weight = nn.Parameter(torch.empty(self.depth, self.heads, self.width, 2 * count))
        self.start = nn.Parameter(torch.zeros(self.depth, self.heads, 1, 2 * count))
        nn.init.trunc_normal_(self.weight, std=0.02)

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        """Return queries and keys with more channels, whose scaled scores have the parabolas added."""
        return self._widened(q, k, as_positions(positions), layer, None)

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add the parabolas times `strength`."""
        return self._widened(q, k, as_positions(positions), layer, strength)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return what is added to the scores of a query of zeros, averaged over heads and blocks, `(N, N)`."""
        place = self._place(grid)
        query = self._anchor.new_zeros(1, self.heads, place.length, self.width)
        added = [self._form(query, place, layer) @ self._basis(place).mT for layer in range(self.depth)]
        return torch.stack(added).mean((0, 1, 2))

    def no_weight_decay(self) -> set[str]:
        return {"projection", "start"}

    def coefficients(self, q: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Return a and b of each parabola, `(B, heads, N, parabolas)` each, in at least float32."""
        raw = q[..., : self.width] @ self.weight[layer].to(q.dtype)
        a, b = (raw.to(self.wide) + self.start[layer].to(self.wide)).chunk(2, dim=-1)
        return F.softplus(a), b

    def _widened(
        self, q: Tensor, k: Tensor, place: Positions, layer: int, strength: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._check_tokens(q, place)
        self._check_tokens(k, place)
        self._check_layer(layer, self.depth)
        form = self._form(q, place, layer) * self.width**0.5  # the kernel will divide by it
        basis = self._basis(place).expand(*k.shape[:2], -1, -1)
        if strength is not None:
            form = form * strength
        parts = [_split(each, q.dtype) for each in (form, basis)]
        if len(parts[0]) > 1:  # the product of the two small parts is left out
            (form_high, form_low), (basis_high, basis_low) = parts
            parts = [[form_high, form_low, form_high], [basis_high, basis_high, basis_low]]
        more = -(q.shape[-1] + 6 * len(parts[0])) % MULTIPLE
        wide_q, wide_k = (
            F.pad(torch.cat((each, *part), dim=-1), (0, more)) for each, part in zip((q, k), parts, strict=True)
        )
        return wide_q, wide_k

    def _form(self, q: Tensor, place: Positions, layer: int) -> Tensor:
        """Return the coefficients of each query's quadratic form of the key's position, `(B, heads, N, 6)`."""
        a, b = self.coefficients(q, layer)
        down, right = self.projection[layer, :, None].to(a.dtype).unbind(-1)  # (heads, 1, parabolas)
        yy, yx, xx = ((a * each).sum(-1) for each in (down * down, down * right, right * right))
        to_y, to_x = ((b * each).sum(-1) for each in (down, right))
        y, x = self._centred(place)[:, None].unbind(-1)  # (1 or B, 1, N)
        by_y, by_x = yy * y + yx * x, yx * y + xx * x
        own = (to_y - by_y) * y + (to_x - by_x) * x
        return torch.stack((own, 2 * by_y - to_y, 2 * by_x - to_x, -yy, -2 * yx, -xx), dim=-1)

    def _basis(self, place: Positions) -> Tensor:
        """Return what the forms are multiplied by, `(1 or B, 1, N, 6)`."""
        y, x = self._centred(place)[:, None].unbind(-1)
        return torch.stack((torch.ones_like(y), y, x, y * y, y * x, x * x), dim=-1)

    def _centred(self, place: Positions) -> Tensor:
        """Return row and column from the middle cell of the grid, where squares are smallest, `(1 or B, N, 2)`."""
        points, sizes = self._plane(place)
        return (points - (sizes / 2).floor()).to(self.wide)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.heads}, parabolas={self.projection.shape[2]}"


def _split(values: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Return tensors of a dtype whose sum is `values`: two in half precision, else one."""
    high = values.to(dtype)
    return [high, (values - high).to(dtype)] if dtype in HALF else [high]
