"""Learnable Fourier features (LFF)."""

import copy

import torch
from torch import Tensor, nn

from loope.core.errors import one_of, require_multiple
from loope.core.grid import Grid, GridLike, as_positive, as_size
from loope.encoders.base import register_encoder
from loope.encoders.refine import Refinable, Refine
from loope.encoders.regression import ridge
from loope.positions import Positions, as_positions
from loope.positions.plane import unit

AMPLITUDES = ("unit", "li")
FIT_STEPS, FIT_RATE = 200, 1e-2  # of `fit`


@register_encoder("fourier")
class LearnableFourier(Refinable):
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
        refine: "image" moves patches by what the image shows; options as a dictionary or `ImageRefinement`.
        patch_size: side of a patch in pixels, for `refine`.
        channels: channels of the image, for `refine`.
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
        refine: Refine = None,
        patch_size: int | None = None,
        channels: int = 3,
    ):
        super().__init__(dim, grid)
        one_of("amplitude", amplitude, AMPLITUDES)
        self.amplitude = amplitude
        features = as_size(self.dim + self.dim % 2 if features is None else features, "features")
        require_multiple("features", features, 2, repr(self.name))
        self.projection = nn.Parameter(torch.randn(2, features // 2) / as_positive(gamma, "gamma"))
        self.mlp = nn.Sequential(nn.Linear(features, as_size(hidden, "hidden")), nn.GELU(), nn.Linear(hidden, self.dim))
        self._refine_by(refine, patch_size, channels)

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        return self._static(self.refine_positions(images, as_positions(positions)))

    def _static(self, positions: Positions) -> Tensor:
        if positions.moved is not None:
            return self._features(unit(*self._plane(positions)).to(self.wide))
        if positions.whole is not None:
            return self._features(self.constant("_coordinates", positions.whole))[None]
        return positions.pick([self._features(self.constant("_coordinates", grid)) for grid in positions.kinds])

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
        """Fit the last layer by ridge regression, and what comes before it by gradient descent through that."""
        twin = copy.deepcopy(self).double()
        wanted = table.detach().to(twin._anchor)
        points = twin.constant("_coordinates", self.grid)
        first, activation, last = twin.mlp
        fitted = [twin.projection, *first.parameters()]
        optimizer = torch.optim.Adam(fitted, lr=FIT_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, FIT_STEPS)
        with torch.enable_grad(), torch.autocast(points.device.type, enabled=False):
            for _ in range(FIT_STEPS):
                optimizer.zero_grad()
                unexplained = 1 - ridge(activation(first(twin._waves(points))), wanted).explained
                torch.autograd.backward(unexplained, inputs=fitted)
                optimizer.step()
                schedule.step()
        with torch.no_grad():
            solution = ridge(activation(first(twin._waves(points))), wanted)
            last.load_state_dict({"weight": solution.weight.T, "bias": solution.bias})
        self.load_state_dict(twin.state_dict())
        return float(solution.explained)

    def no_weight_decay(self) -> set[str]:
        return {"projection"}

    def _coordinates(self, grid: Grid) -> Tensor:
        return unit(*Positions((grid,)).plane(torch.float64))[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, amplitude={self.amplitude!r}"
