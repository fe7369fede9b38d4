"""Learnable Fourier features (LFF)."""

import copy

import torch
from torch import Tensor, nn

from loope.core.errors import one_of, require_multiple
from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.base import PositionalEncoder, explained, register_encoder
from loope.encoders.regression import ridge
from loope.positions import Positions, as_positions
from loope.positions.plane import unit

AMPLITUDES = ("unit", "li")
FIT_STEPS, FIT_RATE, FIT_SOLVE = 400, 1e-2, 100  # of `fit`: steps, learning rate, steps between closed-form solutions


@register_encoder("fourier")
class LearnableFourier(PositionalEncoder):
    """[cos(x Wr), sin(x Wr)] of the cell's coordinates, then Linear-GELU-Linear to the width.

    Coordinates run from -1 to 1 on every grid, so other grids need no resampling of parameters.

    Args:
        dim: width D of the tokens.
        grid: (height, width) of the grid.
        features: number F of Fourier features, even; by default the width.
        hidden: width of the hidden layer.
        gamma: Wr starts from a normal distribution with standard deviation 1 / gamma.
        amplitude: "unit" uses the waves as they are; "li" divides them by sqrt(F), as in Li et al.'s formula, which
            makes the initial vectors 10 to 30 times smaller.
    """

    paper = "Li et al., 2021"
    reads_content = False
    continuous = True

    def __init__(
        self,
        dim: int,
        grid: GridLike,
        features: int | None = None,
        hidden: int = 32,
        gamma: float = 1.0,
        amplitude: str = "unit",
    ):
        super().__init__(dim, grid)
        one_of("amplitude", amplitude, AMPLITUDES)
        self.amplitude = amplitude
        features = as_size(self.dim + self.dim % 2 if features is None else features, "features")
        require_multiple("features", features, 2, repr(self.name))
        self.projection = nn.Parameter(torch.randn(2, features // 2) / as_positive(gamma, "gamma"))
        self.mlp = nn.Sequential(nn.Linear(features, as_size(hidden, "hidden")), nn.GELU(), nn.Linear(hidden, self.dim))

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        place = as_positions(positions)
        if place.moved is not None:
            return self._features(unit(*self._plane(place)).to(self.wide))
        if place.whole is not None:
            return self._features(self.constant("_coordinates", place.whole))[None]
        return place.pick([self._features(self.constant("_coordinates", grid)) for grid in place.kinds])

    def _features(self, points: Tensor) -> Tensor:
        """Return the vectors at `points` `(..., 2)` in units of the image, `(..., D)`."""
        embedded: Tensor = self.mlp(self._waves(points))
        return embedded

    def _waves(self, points: Tensor) -> Tensor:
        # Two products and a sum instead of a matrix product, which autocast would round.
        angle = points[..., :1] * self.projection[0] + points[..., 1:] * self.projection[1]
        waves = torch.cat((angle.cos(), angle.sin()), dim=-1)
        if self.amplitude == "li":
            waves = waves / waves.shape[-1] ** 0.5
        return waves.to(self.dtype)

    def fit(self, table: Tensor) -> float:
        """Fit frequencies and network by gradient descent, and the last layer by ridge regression in between."""
        twin = copy.deepcopy(self).float()
        wanted = table.detach().to(twin._anchor.device, torch.float32)
        points = twin.constant("_coordinates", self.grid)
        optimizer = torch.optim.Adam(twin.parameters(), lr=FIT_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, FIT_STEPS)
        with torch.enable_grad(), torch.autocast(points.device.type, enabled=False):
            for step in range(FIT_STEPS):
                if step % FIT_SOLVE == 0:
                    twin._solve_last(points, wanted)
                optimizer.zero_grad()
                torch.autograd.backward(nn.functional.mse_loss(twin._features(points), wanted))
                optimizer.step()
                schedule.step()
            twin._solve_last(points, wanted)
        self.load_state_dict(twin.state_dict())
        with torch.no_grad():
            return explained(wanted, twin._features(points))

    @torch.no_grad()
    def _solve_last(self, points: Tensor, table: Tensor) -> None:
        """Set the last layer to its best for the hidden features."""
        first, activation, last = self.mlp
        hidden: Tensor = activation(first(self._waves(points)))
        weight, bias, _ = ridge(hidden.double(), table.double())
        last.weight.copy_(weight.T)  # type: ignore[operator]
        last.bias.copy_(bias)  # type: ignore[operator]

    def no_weight_decay(self) -> set[str]:
        return {"projection"}

    def _coordinates(self, grid: Grid) -> Tensor:
        return unit(*Positions((grid,)).plane(torch.float64))[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, amplitude={self.amplitude!r}"
