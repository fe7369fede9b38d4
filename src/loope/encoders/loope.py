"""LOOPE: a static patch order plus a fractional offset read from the image, then sinusoids (Eq. `our`)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.errors import one_of, require
from loope.core.grid import Grid, GridLike
from loope.encoders.base import PositionalEncoder, register_encoder
from loope.encoders.frequencies import Frequencies
from loope.encoders.generator import ImageRefinement, IndexGenerator
from loope.encoders.refine import Images
from loope.encoders.resample import resample
from loope.encoders.sinusoid import Sinusoid
from loope.orders import Order
from loope.positions import Positions, as_positions

VARIANTS = ("paper", "released")
POLICIES = ("sinusoid", "table")
STD = 0.02  # of a learned table at the start, as for `Learned`


@register_encoder("loope")
class Loope(Sinusoid):
    """sin(W (X_G + X_C) + pi/2 delta): the order X_G is refined by offsets X_C in [-1, 1] that a small CNN reads.

    Args:
        dim: width D of the tokens, even.
        grid: (height, width) of the grid.
        patch_size: side of a patch in pixels.
        channels: channels of the image.
        order: the static order X_G, as for `Sinusoid`.
        frequencies: as for `Sinusoid`.
        phase: as for `Sinusoid`.
        inputs: the generator's input: "rgb+xy", "rgb" or "xy".
        mixer: its last layer: "linear" as in the paper (depends on the grid), "conv" (does not) or "none".
        activation: "relu" or "gelu"; by default the variant's.
        initialization: "live" ensures that no generator is dead at the start; "torch" is PyTorch's default, with which
            four in ten generators with ReLU are. By default the variant's.
        zero_init: start from X_C = 0, the static order.
        variant: "paper" is the architecture of the paper's text: ReLU, a bias in the last layer, positions from 0.
            "released" is that of the authors' code: GELU, no bias in the last layer, positions from 1,
            PyTorch's initialization, and a learned vector for the class token when attached.
        policy: what a position on the curve becomes (Eq. 1): "sinusoid", or "table", a learned vector for each place on
            the curve, interpolated linearly between places.

    Examples:
        >>> encoder = Loope(dim=8, grid=(2, 3), patch_size=4)
        >>> images = torch.rand(5, 3, 8, 12)
        >>> encoder(images).shape, encoder.offsets(images).shape
        (torch.Size([5, 6, 8]), torch.Size([5, 6]))
    """

    paper = "Chowdhury et al., 2025 (LOOPE)"
    at_other_sizes = "new curve, resampled"
    generator: IndexGenerator

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        patch_size: int,
        channels: int = 3,
        order: str | Order = "gilbert",
        frequencies: Frequencies = "vaswani",
        phase: str = "channel",
        inputs: str = "rgb+xy",
        mixer: str = "linear",
        activation: str | None = None,
        initialization: str | None = None,
        zero_init: bool = False,
        variant: str = "paper",
        policy: str = "sinusoid",
    ):
        super().__init__(dim, grid, order, frequencies, phase)
        one_of("variant", variant, VARIANTS)
        one_of("policy", policy, POLICIES)
        self.variant = variant
        self.policy = policy
        released = variant == "released"
        options = ImageRefinement(
            inputs=inputs,
            mixer=mixer,
            activation=activation or ("gelu" if released else "relu"),
            initialization=initialization or ("torch" if released else "live"),
            zero_init=zero_init,
        )
        self._refine_by(options, patch_size, channels, outputs=1, mixer_bias=not released)
        self.reads_content = self.generator.reads_image
        self.prefix = "learned" if released else "none"
        if policy == "table":
            require(
                isinstance(frequencies, str) and frequencies == "vaswani" and phase == "channel",
                "`frequencies` and `phase` are of the policy 'sinusoid'; leave them out with policy='table'.",
            )
            self.table = nn.Parameter(torch.empty(self.grid.size, self.dim))
            nn.init.trunc_normal_(self.table, std=STD)

    def embed(self, images: Images, positions: Positions) -> Tensor:
        """Return `(B, N, D)`, or `(1, N, D)` if the generator reads coordinates only."""
        place = as_positions(positions)
        return self._policy(self.refined_index(images, place), place)

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the cosine of the static order's vectors (X_C = 0), `(N, N)`; for images see `encoder_similarity`."""
        if self.policy == "table":
            return PositionalEncoder.similarity(self, grid)
        static = Sinusoid(self.dim, self.grid if grid is None else grid, self.order, self.frequencies, self.phase)
        return static.to(self._anchor).similarity()

    @classmethod
    def own_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        require(
            options.get("zero_init", True) is True,
            "`init='own'` starts 'loope' from X_C = 0, where its vectors are fitted; leave zero_init out.",
        )
        if options.get("policy") == "table":
            return {"zero_init": True}
        return {"zero_init": True, **Sinusoid.own_options(options)}

    @torch.no_grad()
    def fit(self, table: Tensor) -> float:
        """Copy the table, for `policy="table"`."""
        if self.policy != "table":
            return super().fit(table)
        self.table.copy_(table[self.constant("_along", self.grid).argsort()])
        return 1.0

    def no_weight_decay(self) -> set[str]:
        return {"table"} if self.policy == "table" else set()

    def _static(self, positions: Positions) -> Tensor:
        return self._policy(self.per_patch("_index", positions), positions)

    def _policy(self, index: Tensor, positions: Positions) -> Tensor:
        """Return the vectors at fractional positions `(1 or B, N)` on the curve, `(1 or B, N, D)`."""
        if self.policy == "sinusoid":
            return self._sinusoids(index, positions).to(self.dtype)
        tables = [self._table_on(grid) for grid in positions.kinds]
        sizes = positions.plane(index.dtype, index.device)[1].prod(-1)  # cells of each patch's grid
        place = torch.minimum((index - self._first).clamp(min=0), sizes - 1)
        low = place.floor()
        high = torch.minimum(low + 1, sizes - 1)
        below, above = (positions._replace(cells=each.long(), moved=None).pick(tables) for each in (low, high))
        return torch.lerp(below, above, (place - low).to(self.dtype)[..., None])

    def _table_on(self, grid: Grid) -> Tensor:
        """Return the learned table along the curve of a grid, `(cells, D)`, resampled in the plane."""
        if grid == self.grid:
            return self.table
        cells = resample(self.table[self.constant("_along", self.grid)], self.grid, grid)
        return cells[self.constant("_along", grid).argsort()]

    def _resample(self, grid: Grid) -> None:
        super()._resample(grid)
        if self.policy == "table":
            self.table = nn.Parameter(self._table_on(grid), self.table.requires_grad)

    @property
    def _first(self) -> int:
        """Return the position of the curve's first cell."""
        return int(self.variant == "released")

    def _index(self, grid: Grid) -> Tensor:
        return super()._index(grid) + self._first

    def _along(self, grid: Grid) -> Tensor:
        """Return the place of each cell on the curve, from 0, `(N,)` int64."""
        return super()._index(grid).long()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, patch_size={self.patch_size}, variant={self.variant!r}, policy={self.policy!r}"
